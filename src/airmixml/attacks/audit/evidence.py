"""From scores to lower bounds: every method that is valid for an attack, with the confidence shared out among them."""

from __future__ import annotations

from typing import Final

from airmixml.attacks.audit.bounds import (
    clopper_pearson_epsilon,
    gaussian_epsilon_lower,
    largest_counted_epsilon,
    normal_scores_p_value,
    one_run_can_tell,
    one_run_epsilon,
    parametric_epsilon,
)
from airmixml.attacks.audit.findings import Audit, LowerBound
from airmixml.attacks.audit.one_run import OneRun
from airmixml.attacks.audit.trials import Trials

__all__ = ["COUNTING", "bounds_of", "why_far_below"]

# Below this the scores are not taken for normal.
_LEAST_P_VALUE: Final = 1e-4
_FAR_BELOW: Final = 0.7
COUNTING, _GAUSSIAN, _NORMAL, _ONE_RUN = "clopper-pearson", "gaussian", "normal scores", "one run"


def bounds_of(
    trials: Trials, one_run: OneRun | None, left_out: str, *, adjacency: str, delta: float, confidence: float
) -> list[LowerBound]:
    """Return the bounds of all methods; together they hold with the confidence (Bonferroni).

    Args:
        trials: scores of independent trials.
        one_run: the run with many canaries.
        left_out: why there is none.
        adjacency: which neighbours the trials are about.
        delta: of the claim.
        confidence: with which the largest bound holds.
    """
    methods = 3 if trials.normal else 1
    run_tells = one_run is not None and one_run_can_tell(delta, 1.0 - (1.0 - confidence) / (methods + 1))
    each = 1.0 - (1.0 - confidence) / (methods + run_tells)
    scores = trials.scores_in, trials.scores_out
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
    if one_run is None:
        found.append(bound(_ONE_RUN, None, "nothing", f"left out: {left_out}"))
        return found
    epsilon, guesses, correct = one_run_epsilon(one_run.scores, one_run.coins, delta, each)
    detail = f"{correct:,} of {guesses:,} guesses right, {len(one_run.coins):,} canaries in one run on the real data"
    if not run_tells:
        detail += f"; left out: its theorem says nothing at a delta of {delta:g}"
    found.append(
        LowerBound(
            method=_ONE_RUN,
            epsilon=epsilon if run_tells else None,
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
    reasons, trials = [], len(audit.trials.scores_in)
    methods = sum(bound.epsilon is not None for bound in audit.bounds)
    most = largest_counted_epsilon(trials, audit.delta, 1.0 - (1.0 - audit.confidence) / methods)
    if best.method == COUNTING and claim.epsilon > most:
        reasons.append(
            f"counting {2 * trials:,} trials cannot show more than epsilon {most:.3g}, and less where only rare "
            "outcomes tell"
        )
    elif best.method == COUNTING:
        reasons.append(f"counting {2 * trials:,} trials is uncertain at delta {audit.delta:g}; more trials come closer")
    return reasons
