"""A target at which nothing can be learnt is said to be one."""

from __future__ import annotations

import warnings

import pytest

from airmixml import Scenario
from airmixml.errors import AirMixWarning
from airmixml.radio import check_privacy_target


def test_a_target_that_leaves_nothing_to_learn_from_is_warned_of() -> None:
    iris = Scenario.preset("private-iris")
    with pytest.warns(AirMixWarning, match=r"privacy.epsilon = 1e-09: so strict"):
        check_privacy_target(iris.with_overrides("privacy.epsilon=1e-9"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_privacy_target(iris.with_overrides("privacy.epsilon=0.1"))
