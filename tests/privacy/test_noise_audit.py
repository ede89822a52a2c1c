"""The samplers at length, by `make audit`: as in test_noise_laws, with twenty times the draws and other seeds."""

import numpy as np
import pytest
from scipy import stats

from discreet.privacy.noise import gaussian, two_sided_geometric
from tests.privacy.test_noise_laws import FALSE_ALARM, chi_square, stream

pytestmark = pytest.mark.slow

BLOCKS, BLOCK = 100, 2_000_000


@pytest.mark.parametrize("sigma", [2.0**20 * 1.234, 2.0**24])
def test_goodness_of_fit_of_the_normal_law_at_2e8_draws(sigma: float) -> None:
    edges = np.rint(stats.norm.ppf(np.arange(1, 5000) / 5000) * sigma)
    cdf = np.concatenate([[0], stats.norm.cdf((edges - 0.5) / sigma), [1]])
    counts, low_bits, far = np.zeros(5000, np.int64), np.zeros(4096, np.int64), 0
    source, block = stream(100), np.empty(BLOCK, np.int64)
    for _ in range(BLOCKS):
        gaussian(sigma, source, block)
        counts += np.bincount(np.searchsorted(edges, block, side="right"), minlength=5000)
        low_bits += np.bincount(block & 4095, minlength=4096)
        far += int(np.count_nonzero(np.abs(block) > 5 * sigma))
    assert chi_square(counts, np.diff(cdf)) > FALSE_ALARM
    assert chi_square(low_bits, np.full(4096, 1 / 4096)) > FALSE_ALARM
    assert stats.binomtest(far, BLOCKS * BLOCK, 2 * stats.norm.sf(5)).pvalue > FALSE_ALARM
    off = np.concatenate([[0], stats.norm.cdf((edges - 0.5) / (sigma * 1.002)), [1]])
    assert chi_square(counts, np.diff(off)) < 1e-12  # a scale off by 0.2% is noticed


def test_tails_of_the_geometric_law_at_1e8_draws() -> None:
    scale = 2.0**20
    source, block = stream(101), np.empty(BLOCK, np.int64)
    beyond = dict.fromkeys((5, 9, 10, 12, 15), 0)  # the tail starts again at about 9.26
    for _ in range(BLOCKS // 2):
        two_sided_geometric(scale, source, block)
        size = np.abs(block)
        for cut in beyond:
            beyond[cut] += int(np.count_nonzero(size >= cut * scale))
    for cut, count in beyond.items():
        true = 2 * np.exp(-cut) / (1 + np.exp(-1 / scale))
        assert stats.binomtest(count, BLOCKS // 2 * BLOCK, true).pvalue > FALSE_ALARM
