"""Pseudorandom numbers that are determined by public seeds and a person's own row."""

from __future__ import annotations

import numpy as np

from discreet.typing import Words

ODD = np.uint64(0x9E3779B97F4A7C15)


def mixed(words: Words) -> Words:
    """Words scrambled by a bijection that leaves no pattern: the finalizer of SplitMix64 (Steele and others 2014)."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))
