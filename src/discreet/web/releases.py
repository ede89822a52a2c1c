"""What each release reveals, in words for visitors of a page. Certificates use the models' own labels."""

from __future__ import annotations

import re

WORDS = {
    "choice of items": "Which titles enough people know to be listed here",
    "choice of more items": "Which titles enough people know to be listed here",
    "users and their means": "How many people there are, and how high they rate on average",
    "users' mean ratings": "How high people rate on average",
    "variances of users' ratings": "How far people's ratings spread",
    "sum of ratings": "How high people rate on average",
    "item popularity": "How many people know each title",
    "item counts": "How many people rated each title",
    "item counts of a uniform sample": "How many people know each title",
    "item counts of the final sample": "How many people know each title, counted again",
    "item weights": "How much each title stands for in what people rated",
    "item biases": "How well each title is liked on average",
    "item sums of ratings": "How well each title is liked on average",
    "second moment": "Which titles are rated by the same people",
    "second moment of residuals": "Which titles are liked by the same people, beyond what is known already",
    "second moment of weights": "Which titles are rated by the same people",
    "second moment for the start": "Which titles are rated by the same people",
    "second moment of ratings": "Which titles are liked by the same people",
    "second moment of histories": "Which titles are chosen by the same people",
    "power step of histories": "Which rarer titles are chosen by the same people",
    "weights of the covariance": "How many people rated each pair of titles",
    "weighted covariance of ratings": "Which titles are liked by the same people",
    "directions": "Which tastes each title appeals to",
    "item step": "Which tastes each title appeals to",
    "shared Gram": "How people's tastes differ",
    "global Gram": "How people's tastes differ",
    "item gradient": "Which tastes each title appeals to",
    "item gradient over a sample of users": "Which tastes each title appeals to",
    "second moment of gradient steps": "Which titles are liked by the same people",
    "residual covariance": "Which titles are liked by the same people, beyond what is known already",
    "residual product": "Which titles are liked by the same people, beyond what is known already",
    "residual energy": "How much of people's ratings is not explained yet",
    "residual length": "How much of people's ratings is not explained yet",
    "ones of each item": "How many people said yes to each title",
    "flipped bits": "Each person's answers, some of them reversed at random",
    "bits with noise": "Each person's answers, blurred",
    "gradient": "How well each answer is explained so far",
    "completed matrix": "What each person would answer, blurred",
    "linear term of the objective": "Noise that makes the result random",
}
_WHICH = re.compile(r"[\s,:]*(?:first|second|(?:step\s*)?\d+(?:\s*(?:of|/)\s*\d+)?)\s*$", re.IGNORECASE)  # "2 of 7"


def in_words(label: str) -> str:
    """What a release with this label reveals; for unknown labels, the label without its number."""
    name = label if label in WORDS else _WHICH.sub("", label) or label
    return WORDS.get(name, name)
