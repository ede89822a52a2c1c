"""Private Alternating Least Squares (Chien and others 2021): its tables and figures, a module each."""
