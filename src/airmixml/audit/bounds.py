"""Lower bounds on epsilon from the scores of an attack, each with a stated confidence.

An attack gives every trial a score, large where it believes that the canary was there. Scores of trials with the canary
(``scores_in``) and without it (``scores_out``) that separate better than (epsilon, delta) allows refute that epsilon. A
bound is exceeded with probability ``confidence`` by the mechanism's epsilon at ``delta``.
"""

import math
from typing import Final

import numpy as np
from scipy.special import ndtri
from scipy.stats import beta, chi2, f, normaltest

from airmixml.arrays import Doubles, Integers
from airmixml.privacy.gaussian import gaussian_epsilon

Scores = Doubles

# Share of the trials that chooses the threshold; the others, which have not seen it, are counted at it.
_CHOOSING_SHARE: Final = 0.25
_SAME: Final = 1e-9  # deviation of scores over their size: rounding
_MOST_THRESHOLDS: Final = 2000


def binomial_upper(count: Integers | int, trials: int, failure: float) -> Doubles:
    """Return Clopper and Pearson's upper limit of a rate, exceeded with probability ``failure`` at most; like count."""
    counts = np.asarray(count, dtype=np.float64)
    limit = beta.ppf(1.0 - failure, counts + 1.0, np.maximum(trials - counts, 1e-300))
    return np.where(counts >= trials, 1.0, limit)


def clopper_pearson_epsilon(scores_in: Scores, scores_out: Scores, delta: float, confidence: float) -> float:
    """Return an epsilon that the mechanism exceeds with that confidence; nothing is assumed but independent trials.

    (epsilon, delta) allows TPR <= e^epsilon FPR + delta and TNR <= e^epsilon FNR + delta for every test. A quarter of
    the trials chooses threshold and direction, the rest bounds the two rates, each with half of the failure
    probability (Jagielski, Ullman and Oprea 2020, with the choice made on other trials than the count).
    """

    def epsilons(some_in: Scores, some_out: Scores, thresholds: Scores) -> Scores:
        """Return what limits of the error rates allow in both directions; 2 x thresholds."""
        misses = np.searchsorted(np.sort(some_in), thresholds, side="right")
        alarms = len(some_out) - np.searchsorted(np.sort(some_out), thresholds, side="right")
        failure = (1.0 - confidence) / 2.0
        miss, alarm = binomial_upper(misses, len(some_in), failure), binomial_upper(alarms, len(some_out), failure)
        return np.stack([_log_ratio(1.0 - miss - delta, alarm), _log_ratio(1.0 - alarm - delta, miss)])

    cut_in, cut_out = (int(len(scores) * _CHOOSING_SHARE) for scores in (scores_in, scores_out))
    thresholds = _thresholds(scores_in[:cut_in], scores_out[:cut_out])
    # Limits of the few trials that choose, so that a lucky threshold far out in the tail is not taken.
    guesses = epsilons(scores_in[:cut_in], scores_out[:cut_out], thresholds)
    row, place = np.unravel_index(int(np.argmax(guesses)), guesses.shape)
    counted = epsilons(scores_in[cut_in:], scores_out[cut_out:], thresholds[place : place + 1])
    return max(0.0, float(counted[row, 0]))


def parametric_epsilon(scores_in: Scores, scores_out: Scores, delta: float, confidence: float) -> float:
    """Return an epsilon that is exceeded with that confidence *if the scores are normal with one variance*.

    Log-likelihood ratios of a Gaussian mechanism are. The deviation is bounded above through chi-square and the
    distance of the means below through the normal law, each with half of the failure probability; their ratio bounds
    mu. Unlike counting this reaches any epsilon.
    """
    failure = (1.0 - confidence) / 2.0
    trials_in, trials_out = len(scores_in), len(scores_out)
    freedom = trials_in + trials_out - 2
    squares = float(np.var(scores_in) * trials_in + np.var(scores_out) * trials_out)
    deviation_up = math.sqrt(squares / float(chi2.ppf(failure, freedom)))
    error = float(-ndtri(failure)) * deviation_up * math.sqrt(1.0 / trials_in + 1.0 / trials_out)
    apart = float(np.mean(scores_in) - np.mean(scores_out)) - error
    return gaussian_epsilon(apart / deviation_up, delta) if apart > 0.0 else 0.0


def normal_scores_p_value(scores_in: Scores, scores_out: Scores) -> float:
    """Return how well the scores agree with normal laws of one variance: the least of three p-values, times three.

    Skewness and kurtosis of either world (D'Agostino and Pearson), and the ratio of the two variances. Scores that are
    all the same have no law.
    """
    if min(np.std(scores_in), np.std(scores_out)) <= _SAME * max(np.abs(scores_in).max(), np.abs(scores_out).max()):
        return 0.0
    ratio = float(np.var(scores_in, ddof=1) / max(float(np.var(scores_out, ddof=1)), 1e-300))
    law = f(len(scores_in) - 1, len(scores_out) - 1)
    equal = 2.0 * min(float(law.cdf(ratio)), float(law.sf(ratio)))
    return min(1.0, 3.0 * min(float(normaltest(scores_in).pvalue), float(normaltest(scores_out).pvalue), equal))


def _thresholds(scores_in: Scores, scores_out: Scores) -> Scores:
    """Return places between scores to cut at, and the middle between the two medians."""
    every = np.unique(np.concatenate([scores_in, scores_out]))
    if len(every) < 2:
        return np.asarray([0.0])
    middles = (every[1:] + every[:-1]) / 2.0
    step = max(1, len(middles) // _MOST_THRESHOLDS)
    centre = (float(np.median(scores_in)) + float(np.median(scores_out))) / 2.0
    return np.append(middles[::step], centre)


def _log_ratio(above: Doubles, below: Doubles) -> Doubles:
    """Return ln(above / below), minus infinity where there is nothing above."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(above > 0.0, np.log(np.maximum(above, 1e-300)) - np.log(np.maximum(below, 1e-300)), -np.inf)
