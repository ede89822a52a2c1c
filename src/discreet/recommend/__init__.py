"""Serving: read a caller's history, then score, filter, rank and explain items."""

from discreet.recommend.results import BatchRecommendations, Explanation, Recommendations

__all__ = ["BatchRecommendations", "Explanation", "Recommendations"]
