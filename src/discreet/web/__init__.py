"""A model as a web page: static files for any host, a JavaScript client that folds users in, and a small server."""

from discreet.web.site import Site, export

__all__ = ["Site", "export"]
