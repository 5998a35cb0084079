"""What scores show, against scikit-learn and known cases."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score, roc_curve

from airmixml.attacks.measured import Linkage, Scores, area_under_curve, hit_rate
from airmixml.messages import ScenarioError

Floats = np.ndarray[Any, np.dtype[np.float64]]
SCORES = st.lists(st.integers(0, 12), min_size=1, max_size=120).map(lambda values: np.array(values, dtype=float))


@settings(max_examples=30, deadline=None)
@given(private=SCORES, public=SCORES)
def test_the_area_is_that_of_scikit_learn(private: Floats, public: Floats) -> None:
    truth = np.repeat([1, 0], [len(private), len(public)])
    scores = np.concatenate([private, public])
    assert area_under_curve(private, public) == pytest.approx(roc_auc_score(truth, scores))


@settings(max_examples=30, deadline=None)
@given(private=SCORES, public=SCORES, rate=st.sampled_from([0.0, 0.01, 0.2, 0.5]))
def test_the_hit_rate_is_the_best_point_of_the_curve_of_scikit_learn(
    private: Floats, public: Floats, rate: float
) -> None:
    truth = np.repeat([1, 0], [len(private), len(public)])
    false_rate, true_rate, _ = roc_curve(truth, np.concatenate([private, public]), drop_intermediate=False)
    assert hit_rate(private, public, rate) == pytest.approx(true_rate[false_rate <= rate + 1e-12].max())


def test_linkage_by_hand() -> None:
    found = Linkage.of(Scores(held=np.array([3.0, 1.0]), decoys=np.array([2.0, 0.0])), "likeness")
    assert found.auc == 0.75
    assert found.auc_chance_deviation == pytest.approx(np.sqrt(5 / 48))
    assert (found.private_candidates, found.public_candidates) == (2, 2)


def test_no_candidates_are_refused() -> None:
    with pytest.raises(ScenarioError, match="at least"):
        Linkage.of(Scores(held=np.ones(2), decoys=np.ones(0)), "likeness")
