"""From scores to lower bounds: every method that is valid for an attack, with the confidence shared out among them."""

from typing import Final

import numpy as np

from airmixml.audit.bounds import (
    clopper_pearson_epsilon,
    gaussian_epsilon_lower,
    largest_counted_epsilon,
    normal_scores_p_value,
    one_run_epsilon,
    one_run_least_p_value,
    one_run_shares,
    parametric_epsilon,
)
from airmixml.audit.findings import Audit, LowerBound
from airmixml.audit.noise_check import NoiseCheck
from airmixml.audit.one_run import OneRun
from airmixml.audit.trials import Trials
from airmixml.errors import ScenarioError
from airmixml.privacy import gaussian_epsilon

# Below this the scores are not taken for normal.
_LEAST_P_VALUE: Final = 1e-4
_FAR_BELOW: Final = 0.7
_SHOWS_LITTLE: Final = 0.5
# Noise that is missing altogether still gives a finite epsilon.
_LEAST_DEVIATION: Final = 1e-6
COUNTING, _GAUSSIAN, _NORMAL, _ONE_RUN = "clopper-pearson", "gaussian", "normal scores", "one run"
_MEASURED: Final = "measured noise"


def bounds_of(
    trials: Trials,
    one_run: OneRun | None,
    left_out: str,
    noise: NoiseCheck,
    *,
    adjacency: str,
    delta: float,
    failure: float,
) -> list[LowerBound]:
    """Return the bounds of all methods; the failure probability is split over them (Bonferroni).

    The noise of a real run, where it is short, has a failure probability of its own.

    Args:
        trials: scores of independent trials.
        one_run: the run with many canaries.
        left_out: why there is none.
        noise: what the noise of a real run is like.
        adjacency: which neighbours the trials are about.
        delta: of the claim.
        failure: probability with which any of the bounds may be wrong.
    """
    methods = 3 if trials.normal else 1
    spared = failure / (methods + 1)
    shares = () if one_run is None else one_run_shares(len(one_run.coins), delta, 1.0 - spared)
    each = 1.0 - failure / (methods + bool(shares))
    scores = trials.scores_in, trials.scores_out
    if any(np.isnan(found).any() for found in (*scores, *([] if one_run is None else [one_run.scores]))):
        raise ScenarioError("the scores of an attack are not all numbers, so nothing can be said; lower the power")
    counted = f"{len(scores[0]):,} trials with the canary, {len(scores[1]):,} without"

    def bound(method: str, epsilon: float | None, assumes: str, detail: str = counted) -> LowerBound:
        return LowerBound(method=method, epsilon=epsilon, adjacency=adjacency, assumes=assumes, detail=detail)

    found = [bound(COUNTING, clopper_pearson_epsilon(*scores, delta, each), "independent trials")]
    if trials.normal:
        epsilon = gaussian_epsilon_lower(*scores, delta, each)
        found.append(bound(_GAUSSIAN, epsilon, "the trade-off curve of a Gaussian mechanism"))
        p_value = normal_scores_p_value(*scores)
        normal = p_value >= _LEAST_P_VALUE
        found.append(
            bound(
                _NORMAL,
                parametric_epsilon(*scores, delta, each) if normal else None,
                "normal scores of one variance",
                f"{counted}; p-value of normality {p_value:.2g}"
                if normal
                else f"left out: the scores are not normal (p-value {p_value:.2g})",
            )
        )
    if noise.short and noise.upper is not None and trials.shift is not None:
        epsilon = gaussian_epsilon(trials.shift / max(noise.upper, _LEAST_DEVIATION), delta)
        detail = f"a deviation of {noise.upper:.4g} of the stated one at most, {noise.numbers:,} numbers of a real run"
        found.append(bound(_MEASURED, epsilon, "Gaussian noise", detail))
    if one_run is None:
        found.append(bound(_ONE_RUN, None, "nothing", f"left out: {left_out}"))
        return found
    epsilon, guesses, correct = one_run_epsilon(one_run.scores, one_run.coins, delta, each, shares=shares or (1.0,))
    detail = f"{correct:,} of {guesses:,} guesses right, {len(one_run.coins):,} canaries in one run on the real data"
    if not shares:
        least = one_run_least_p_value(len(one_run.coins), 1.0, delta)
        detail += (
            f"; left out: at a delta of {delta:g} its p-value is never below {least:.3g}, and its share of the "
            f"failure probability is {spared:.3g}"
        )
    found.append(
        LowerBound(
            method=_ONE_RUN,
            epsilon=epsilon if shares else None,
            adjacency=one_run.adjacency,
            assumes="nothing",
            detail=detail,
        )
    )
    return found


def why_far_below(audit: Audit) -> list[str]:
    """Return why the best bound may be far below the claim; empty where it is near."""
    best, claim = audit.best, audit.sharpest
    if claim is None or claim.epsilon is None or (best.epsilon or 0.0) >= _FAR_BELOW * claim.epsilon:
        return []
    trials = len(audit.trials.scores_in)
    methods = sum(bound.epsilon is not None for bound in audit.bounds)
    most = largest_counted_epsilon(trials, audit.delta, 1.0 - audit.failure / methods)
    if best.method == COUNTING and claim.epsilon > most:
        return [
            f"counting {2 * trials:,} trials cannot show more than epsilon {most:.3g}, and less where only rare "
            "outcomes tell"
        ]
    return [
        f"{2 * trials:,} trials leave much uncertain at delta {audit.delta:g}, more come closer; or more is claimed "
        "than is lost"
    ]


def shows_little(audit: Audit) -> str:
    """Return why an audit that refutes nothing shows little: it found less than half of the claim; else empty."""
    claim = audit.sharpest
    if claim is None or claim.epsilon is None or (audit.best.epsilon or 0.0) >= _SHOWS_LITTLE * claim.epsilon:
        return ""
    return why_far_below(audit)[0]
