"""Serving: reading a caller's history, scoring, filtering, ranking, explaining."""

from discreet.recommend.results import BatchRecommendations, Explanation, Recommendations

__all__ = ["BatchRecommendations", "Explanation", "Recommendations"]
