"""A model as a web page: static files for any host, a JavaScript client that folds users in, and a small server."""
