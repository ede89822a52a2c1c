"""The four papers: their accounting rules, and (with the models) each of their tables and figures."""
