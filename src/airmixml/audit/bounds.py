"""Lower bounds on epsilon from the scores of an attack, each with a stated confidence.

An attack gives every trial a score, large where it believes that the canary was there. Scores of trials with the canary
(``scores_in``) and without it (``scores_out``) that separate better than (epsilon, delta) allows refute that epsilon. A
bound is exceeded with probability ``confidence`` by the mechanism's epsilon at ``delta``.
"""

import math
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit, ndtri
from scipy.stats import beta, binom, chi2, f, norm, normaltest

from airmixml.arrays import Doubles, Integers
from airmixml.privacy.gaussian import gaussian_epsilon

Scores = Doubles

# Share of the trials that chooses the threshold; the others, which have not seen it, are counted at it.
_SAME: Final = 1e-9  # deviation of scores over their size: rounding
_CHOOSING_SHARE: Final = 0.25
_MOST_THRESHOLDS: Final = 2000
_LARGEST_EPSILON: Final = 60.0
_GUESSED_SHARES: Final = (1.0, 0.5, 0.2, 0.1)


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

    def both_directions(miss: Scores, alarm: Scores) -> Scores:
        return np.stack([_log_ratio(1.0 - miss - delta, alarm), _log_ratio(1.0 - alarm - delta, miss)])

    return max(0.0, _chosen_then_counted(scores_in, scores_out, both_directions, (1.0 - confidence) / 2.0))


def gaussian_epsilon_lower(scores_in: Scores, scores_out: Scores, delta: float, confidence: float) -> float:
    """Return an epsilon that a *Gaussian* mechanism with these scores exceeds with that confidence.

    Both error rates at one threshold bound mu = Phi^-1(1 - FPR) - Phi^-1(FNR) from below, and mu has an exact epsilon
    (Nasr et al. 2023, 'Tight auditing of differentially private machine learning'). It assumes the trade-off curve
    of a Gaussian mechanism, which slots with a known schedule have.
    """

    def gaussian_shift(miss: Scores, alarm: Scores) -> Scores:
        with np.errstate(invalid="ignore"):
            shift = norm.isf(alarm) - norm.ppf(miss)
        return np.where(np.isfinite(shift), shift, -np.inf)[None]

    shift = _chosen_then_counted(scores_in, scores_out, gaussian_shift, (1.0 - confidence) / 2.0)
    return gaussian_epsilon(shift, delta) if shift > 0.0 else 0.0


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


def one_run_p_value(canaries: int, guesses: int, correct: int, epsilon: float, delta: float) -> float:
    """Return how likely so many correct guesses are at most under (epsilon, delta).

    Steinke, Nasr and Jagielski 2023, 'Privacy auditing with one (1) training run', Thm. 5.2: with
    B ~ Binomial(guesses, e^epsilon / (1 + e^epsilon)), beta = P(B >= correct) and
    alpha = max_i P(correct - i <= B < correct) / i, it is beta + 2 canaries delta alpha.
    """
    chance = float(expit(epsilon))
    at_least = float(binom.sf(correct - 1, guesses, chance))
    if delta == 0.0 or correct == 0:
        return at_least
    fewer = np.arange(1, correct + 1)
    alpha = float(np.max((binom.sf(correct - fewer - 1, guesses, chance) - at_least) / fewer))
    return min(1.0, at_least + 2.0 * canaries * delta * max(alpha, 0.0))


def one_run_epsilon(
    scores: Scores, coins: NDArray[np.bool_], delta: float, confidence: float, shares: Sequence[float] = _GUESSED_SHARES
) -> tuple[float, int, int]:
    """Return an epsilon that is exceeded with that confidence, the guesses made and how many of them were right.

    For each share so many canaries are guessed, half of them with the largest scores as in, half with the smallest as
    out, and nobody says a word about the others. The failure probability is split over the shares. ``coins`` says
    which canaries were in.
    """
    failure = (1.0 - confidence) / len(shares)
    order = np.argsort(scores, kind="stable")
    best = (0.0, 0, 0)
    for each_side in (int(share * len(scores)) // 2 for share in shares):
        if each_side:
            correct = int(np.sum(~coins[order[:each_side]]) + np.sum(coins[order[-each_side:]]))
            found = _one_run_lower(len(scores), 2 * each_side, correct, delta, failure)
            best = max(best, (found, 2 * each_side, correct))
    return best


def _one_run_lower(canaries: int, guesses: int, correct: int, delta: float, failure: float) -> float:
    def spare(epsilon: float) -> float:
        return failure - one_run_p_value(canaries, guesses, correct, epsilon, delta)

    if spare(0.0) <= 0.0:
        return 0.0
    if spare(_LARGEST_EPSILON) > 0.0:
        return _LARGEST_EPSILON
    return max(0.0, float(brentq(spare, 0.0, _LARGEST_EPSILON, xtol=1e-9)) - 1e-9)


def one_run_least_p_value(canaries: int, share: float, delta: float) -> float:
    """Return the p-value of guesses that are all right, at the least epsilon: none is ever below it.

    2 delta / share would be that of a mechanism that never lets a guess be right. Half of them are by chance alone,
    so it is about 4 delta / share.
    """
    guesses = 2 * (int(share * canaries) // 2)
    return one_run_p_value(canaries, guesses, guesses, 0.0, delta) if guesses else 1.0


def one_run_shares(canaries: int, delta: float, confidence: float) -> tuple[float, ...]:
    """Return which shares of the canaries to guess, decided before any of them is; none where no guess could tell.

    The failure probability is split over the shares. One more is tried only where its least p-value takes no more than
    half of its part; all canaries alone are guessed where the least p-value leaves anything.
    """
    failure = 1.0 - confidence
    for count in range(len(_GUESSED_SHARES), 1, -1):
        if one_run_least_p_value(canaries, _GUESSED_SHARES[count - 1], delta) <= failure / count / 2.0:
            return _GUESSED_SHARES[:count]
    return _GUESSED_SHARES[:1] if one_run_least_p_value(canaries, 1.0, delta) < failure else ()


def _chosen_then_counted(
    scores_in: Scores, scores_out: Scores, value_of: Callable[[Scores, Scores], Scores], failure: float
) -> float:
    """Return the value of the limits of both error rates, counted on trials that did not choose threshold and row.

    ``value_of`` turns limits of misses and alarms, thresholds each, into rows x thresholds.
    """
    cut_in, cut_out = (int(len(scores) * _CHOOSING_SHARE) for scores in (scores_in, scores_out))
    thresholds = _thresholds(scores_in[:cut_in], scores_out[:cut_out])
    # Limits of the few trials that choose, so that a lucky threshold far out in the tail is not taken.
    guesses = value_of(*_error_limits(scores_in[:cut_in], scores_out[:cut_out], thresholds, failure))
    row, place = np.unravel_index(int(np.argmax(guesses)), guesses.shape)
    chosen = thresholds[place : place + 1]
    return float(value_of(*_error_limits(scores_in[cut_in:], scores_out[cut_out:], chosen, failure))[row, 0])


def _thresholds(scores_in: Scores, scores_out: Scores) -> Scores:
    """Return places between scores to cut at, and the middle between the two medians."""
    every = np.unique(np.concatenate([scores_in, scores_out]))
    if len(every) < 2:
        return np.asarray([0.0])
    middles = (every[1:] + every[:-1]) / 2.0
    step = max(1, len(middles) // _MOST_THRESHOLDS)
    centre = (float(np.median(scores_in)) + float(np.median(scores_out))) / 2.0
    return np.append(middles[::step], centre)


def _error_limits(scores_in: Scores, scores_out: Scores, thresholds: Scores, failure: float) -> tuple[Scores, Scores]:
    """Return limits of how often scores with the canary lie at or below each threshold, and those without it above."""
    misses = np.searchsorted(np.sort(scores_in), thresholds, side="right")
    alarms = len(scores_out) - np.searchsorted(np.sort(scores_out), thresholds, side="right")
    return binomial_upper(misses, len(scores_in), failure), binomial_upper(alarms, len(scores_out), failure)


def _log_ratio(above: Doubles, below: Doubles) -> Doubles:
    """Return ln(above / below), minus infinity where there is nothing above."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(above > 0.0, np.log(np.maximum(above, 1e-300)) - np.log(np.maximum(below, 1e-300)), -np.inf)
