"""Lower bounds against hand values, other libraries, many-digit arithmetic, and mechanisms whose epsilon is known."""

from __future__ import annotations

import importlib.util
import math
from importlib.metadata import PackageNotFoundError, files
from types import ModuleType

import numpy as np
import pytest
from scipy.stats import binomtest
from verdicts_for_tests import result_of

from airmixml.audit.audit_page import draw_audit
from airmixml.audit.claims_and_bounds import (
    Audit,
    Claim,
    binomial_upper,
    clopper_pearson_epsilon,
    normal_scores_p_value,
    parametric_epsilon,
)
from airmixml.audit.faults import SOUND
from airmixml.audit.trials import Trials
from airmixml.privacy import gaussian_epsilon

BOUNDS = (clopper_pearson_epsilon, parametric_epsilon)


@pytest.fixture(scope="module")
def jax_privacy_auditing() -> ModuleType:
    """The auditing module of jax-privacy, loaded alone: the package itself would need jax."""
    try:
        path = next(file for file in files("jax-privacy") or [] if file.name == "auditing.py").locate()
    except (PackageNotFoundError, StopIteration):
        pytest.skip("jax-privacy is not installed")
    spec = importlib.util.spec_from_file_location("jax_privacy_auditing", str(path))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    import sys

    sys.modules[spec.name] = module  # its dataclasses look themselves up
    spec.loader.exec_module(module)
    return module


def normal_scores(mu: float, trials: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Scores of a Gaussian mechanism: log-likelihood ratios N(+-mu^2 / 2, mu^2)."""
    rng = np.random.default_rng(seed)
    return rng.normal(mu**2 / 2, mu, trials), rng.normal(-(mu**2) / 2, mu, trials)


@pytest.mark.parametrize(("count", "trials"), [(0, 10), (3, 10), (10, 10), (0, 4000), (25, 4000), (3999, 4000)])
@pytest.mark.parametrize("failure", [0.025, 1e-4])
def test_rates_are_bounded_as_scipy_does(count: int, trials: int, failure: float) -> None:
    exact = binomtest(count, trials).proportion_ci(confidence_level=1 - 2 * failure, method="exact").high
    assert float(binomial_upper(count, trials, failure)) == pytest.approx(exact, rel=1e-9)


def test_no_error_at_all() -> None:
    # 3,750 of 5,000 trials are counted, none goes wrong: the rate is below 1 - 0.025^(1/3750).
    limit = 1 - 0.025 ** (1 / 3750)
    hand = math.log((1 - limit - 0.01) / limit)
    scores_in, scores_out = np.linspace(1.0, 2.0, 5000), np.linspace(-2.0, -1.0, 5000)
    assert clopper_pearson_epsilon(scores_in, scores_out, 0.01, 0.95) == pytest.approx(hand, rel=1e-12)
    assert hand == pytest.approx(6.914, abs=1e-3)


def test_both_directions_count() -> None:
    # A canary that is never missed and raises few alarms: hits beyond alarms, and true rejections beyond misses.
    rng = np.random.default_rng(0)
    surely, seldom = np.ones(8000), (rng.random(8000) < 0.4).astype(float)
    one = clopper_pearson_epsilon(surely, seldom, 0.0, 0.95)  # TNR 0.6 against FNR 0
    other = clopper_pearson_epsilon(-seldom, -surely, 0.0, 0.95)  # TPR 0.6 against FPR 0
    assert one == pytest.approx(other)
    assert one == pytest.approx(math.log(0.6 * 6000 / -math.log(0.025)), rel=0.02)


@pytest.mark.parametrize("bound", BOUNDS)
def test_scores_without_a_difference_prove_nothing(bound: object) -> None:
    scores = np.random.default_rng(1).normal(size=(2, 4000))
    assert bound(*scores, 0.01, 0.95) == 0.0
    assert bound(np.zeros(200) + 1e-9 * scores[0, :200], np.zeros(200) + 1e-9 * scores[1, :200], 0.01, 0.95) == 0.0


def test_constant_scores_prove_nothing() -> None:
    assert clopper_pearson_epsilon(np.zeros(200), np.zeros(200), 0.01, 0.95) == 0.0


@pytest.mark.parametrize("bound", BOUNDS)
def test_coverage(bound: object) -> None:
    # In at most 10 % of all audits of a mechanism with a known epsilon may the bound be above it; of 200 audits more
    # than 10 % + 3 deviations would be so with a chance of 0.1 % if it were just kept.
    mu, delta, repetitions = 1.0, 0.01, 200
    truth = gaussian_epsilon(mu, delta)
    found = np.array([bound(*normal_scores(mu, 1000, seed), delta, 0.9) for seed in range(repetitions)])
    wrong = np.mean(found > truth)
    assert wrong <= 0.1 + 3 * math.sqrt(0.1 * 0.9 / repetitions)
    assert np.median(found) > 0.3 * truth


def test_parametric_reaches_any_epsilon() -> None:
    for mu in (5.0, 100.0, 3e4):
        truth = gaussian_epsilon(mu, 1e-5)
        assert 0.93 * truth < parametric_epsilon(*normal_scores(mu, 5000, 3), 1e-5, 0.95) < truth


@pytest.mark.parametrize("claimed", [0.5, 1.0])  # of the true epsilon
@pytest.mark.parametrize("mu", [1.0, 4.0, 20.0])
def test_a_line_enters_what_is_forbidden_where_its_bound_exceeds_the_claim(mu: float, claimed: float) -> None:
    scores_in, scores_out = normal_scores(mu, 2000, 1)
    claim = Claim(accountant="gdp", epsilon=claimed * gaussian_epsilon(mu, 0.01), why="")
    trials = Trials(scores_in=scores_in, scores_out=scores_out, how="", normal=True)
    audit = Audit(
        adversary="server",
        adjacency="remove-one",
        delta=0.01,
        confidence=0.95,
        failure=0.05,
        claims=[claim],
        trials=trials,
        noise_checks=[],
    )
    (axis,) = draw_audit(result_of([audit], SOUND)).axes
    assert [bound.method for bound in audit.bounds] == ["clopper-pearson", "normal scores"]
    edge, counted, normal = axis.lines[:3]
    for line, bound in zip((counted, normal), audit.bounds, strict=True):
        alarms, misses = (np.asarray(each, dtype=float) for each in line.get_data())
        allowed = np.exp(np.interp(np.log(alarms), np.log(edge.get_xdata()), np.log(edge.get_ydata())))
        seen = (alarms >= axis.get_xlim()[0]) & (allowed > 1.01 * axis.get_ylim()[0])
        entered = bool((misses[seen] < 0.999 * allowed[seen]).any())
        assert entered == audit.refutes(bound)
    assert audit.caught == (claimed < 1.0)


def test_normality_is_checked() -> None:
    scores_in, scores_out = normal_scores(2.0, 5000, 0)
    assert normal_scores_p_value(scores_in, scores_out) > 0.01
    assert normal_scores_p_value(scores_in, 1.2 * scores_out) < 1e-6
    assert normal_scores_p_value(np.exp(scores_in / 4), scores_out) < 1e-6


@pytest.mark.parametrize("mu", [0.7, 1.5])
def test_beside_jax_privacy(mu: float, jax_privacy_auditing: ModuleType) -> None:
    scores_in, scores_out = normal_scores(mu, 20_000, 5)
    theirs = jax_privacy_auditing.CanaryScoreAuditor(scores_in, scores_out)
    truth = gaussian_epsilon(mu, 0.01)
    counted = clopper_pearson_epsilon(scores_in, scores_out, 0.01, 0.95)
    split = jax_privacy_auditing.Split(threshold_estimation_frac=0.25, seed=0)
    their_count = theirs.epsilon_clopper_pearson(0.05, 0.01, one_sided=False, threshold_strategy=split)
    assert counted == pytest.approx(their_count, rel=0.15)
    assert max(counted, their_count) < truth
