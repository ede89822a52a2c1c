"""Differentially Private Matrix Completion Revisited (Jain, Thakkar and Thakurta 2018): Figure 2, a module each."""
