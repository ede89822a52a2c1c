"""Differentially private one-bit matrix completion (2021): its five figures, a module each."""
