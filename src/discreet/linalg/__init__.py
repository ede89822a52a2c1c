"""Batched numerics that do not know what a user is: ridge regressions, small solves, top-k, threads."""
