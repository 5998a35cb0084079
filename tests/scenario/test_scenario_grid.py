"""Grids: keys with values as the command line writes them, and all their combinations."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airmixml import Scenario, ScenarioError
from airmixml.scenario.grid import Grid, scenario_at
from airmixml.scenario.toml import value_text

IRIS = Scenario.preset("paper-iris")


@pytest.mark.parametrize(
    ("asked", "axes"),
    [
        (["privacy.epsilon=0.5,1,5"], {"privacy.epsilon": (0.5, 1.0, 5.0)}),
        (["privacy.epsilon = 1 , 1e0, 1.0,2"], {"privacy.epsilon": (1.0, 2.0)}),
        (["radio.slots=1e3"], {"radio.slots": (1000,)}),
        (["mixing.policy=dirmix,nonmix"], {"mixing.policy": ("dirmix", "nonmix")}),
        (["learner.hidden_units=[32,16],[64],[]"], {"learner.hidden_units": ((32, 16), (64,), ())}),
        (['workers.feature_columns=["a,b","c"],["d"]'], {"workers.feature_columns": (("a,b", "c"), ("d",))}),
        (["workers.dataset='a,b.csv',iris"], {"workers.dataset": ("a,b.csv", "iris")}),
        (["radio.rician_k=inf,0"], {"radio.rician_k": (math.inf, 0.0)}),
        (
            ["mixing.alpha=1,10", "privacy.epsilon=5"],
            {"mixing.alpha": (1.0, 10.0), "privacy.epsilon": (5.0,)},
        ),
    ],
)
def test_values_as_the_command_line_writes_them(asked: list[str], axes: dict[str, Any]) -> None:
    grid = Grid.parse(asked)
    assert grid.axes == axes
    assert list(grid.axes) == list(axes)
    for values in grid.axes.values():
        assert len({type(value) for value in values}) == 1


@pytest.mark.parametrize(
    ("asked", "line"),
    [
        ([], "--grid: give at least one key"),
        (["privacy.epsilon"], "--grid privacy.epsilon: must be KEY=V1,V2,..."),
        (["privacy.epsilon=1,,2"], "must be KEY=V1,V2,..."),
        (["privacy.epsilom=1"], "privacy.epsilom: unknown key; did you mean privacy.epsilon?"),
        (["privacy=1"], "privacy: a table, not a key"),
        (["privacy.epsilon=1,0"], "privacy.epsilon = 0: must be a number above 0"),
        (["privacy.epsilon=1,nan"], "privacy.epsilon = nan: must be a number"),
        (["radio.slots=1.5"], "radio.slots = 1.5: must be a whole number"),
        (["mixing.policy=mixup"], "mixing.policy = 'mixup': must be one of"),
        (["learner.hidden_units=32,16"], "learner.hidden_units: holds a list; write each in brackets"),
        (["learner.hidden_units=[0]"], "learner.hidden_units[0] = 0: must be"),
        (["seed=1,2"], "for several seeds use --seeds N"),
        (["name=a,b"], "it changes no result"),
        (["mixing.alpha=1", "mixing.alpha=2"], "--grid mixing.alpha: given twice"),
    ],
)
def test_mistakes_cost_one_line(asked: list[str], line: str) -> None:
    with pytest.raises(ScenarioError) as refusal:
        Grid.parse(asked)
    assert line in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("values", ["12", 5, [], None])
def test_in_python_values_come_in_a_list(values: Any) -> None:
    with pytest.raises(ScenarioError, match=r"privacy\.epsilon"):
        Grid.of({"privacy.epsilon": values})


@settings(deadline=None, max_examples=30)
@given(
    st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=5, unique=True),
    st.lists(st.integers(1, 9), min_size=1, max_size=5, unique=True),
    st.lists(st.sampled_from(["dirmix", "nonmix", "equalmix"]), min_size=1, max_size=3, unique=True),
)
def test_every_combination_is_there_once_the_last_key_fastest(
    epsilons: list[float], scheduled: list[int], policies: list[str]
) -> None:
    keys = ("privacy.epsilon", "radio.scheduled", "mixing.policy")
    grid = Grid.of(dict(zip(keys, (epsilons, scheduled, policies), strict=True)))
    points = [tuple(point.values()) for point in grid.points]
    assert len(grid) == len(points) == len(set(points)) == len(epsilons) * len(scheduled) * len(policies)
    assert points == [(e, s, p) for e in epsilons for s in scheduled for p in policies]
    scenario = scenario_at(IRIS, next(iter(grid.points)))
    assert scenario == IRIS.with_overrides(*(f"{key}={value}" for key, value in next(iter(grid.points)).items()))


@settings(deadline=None)
@given(st.floats(allow_nan=False), st.floats(allow_nan=False))
def test_two_values_never_look_the_same(one: float, other: float) -> None:
    assert (value_text(one) == value_text(other)) == (one == other and math.copysign(1, one) == math.copysign(1, other))


def test_values_that_do_not_fit_each_other_are_refused_together() -> None:
    assert scenario_at(IRIS, {"workers.count": 9000, "radio.scheduled": 5000}).radio.scheduled == 5000
    with pytest.raises(ScenarioError, match=r"radio\.scheduled = 5000"):
        scenario_at(IRIS, {"workers.count": 4000, "radio.scheduled": 5000})
