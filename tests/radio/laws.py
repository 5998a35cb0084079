"""Shared by the tests of the radio."""

import numpy as np
from scipy import stats


def same_distribution(sample: np.ndarray, law: object) -> bool:
    """Kolmogorov-Smirnov test at the 1 in 10^4 level."""
    return bool(stats.kstest(np.ravel(sample), law).pvalue > 1e-4)
