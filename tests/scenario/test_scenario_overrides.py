"""``--set key=value`` and ``extends``."""

from __future__ import annotations

import math
from typing import Any

import pytest

from airmixml import Scenario, ScenarioError
from airmixml.scenario import Radio


def value_after(assignment: str) -> Any:
    table, _, entry = assignment.partition("=")[0].strip().rpartition(".")
    scenario = Scenario().with_overrides(assignment)
    return getattr(getattr(scenario, table) if table else scenario, entry)


@pytest.mark.parametrize(
    ("assignment", "value"),
    [
        ("seed=7", 7),
        ("name=my run", "my run"),
        ('name="my run"', "my run"),
        ("name='my run'", "my run"),
        ("name=123", "123"),
        ("name=true", "true"),
        ("name=a=b", "a=b"),
        ("name=  spaced  ", "spaced"),
        ("radio.slots=500", 500),
        ("radio.slots=1e3", 1000),
        ("radio.slots=1_000", 1000),
        ("radio.slots = 500", 500),
        ("radio.noise_dbm=-90", -90.0),
        ("radio.rician_k=inf", math.inf),
        ("radio.fading=rayleigh", "rayleigh"),
        ('radio.fading="rayleigh"', "rayleigh"),
        ("workers.dataset=data #1.csv", "data #1.csv"),
        ("workers.dataset=2024.csv", "2024.csv"),
        ("workers.dataset=C:\\x\\y.csv", "C:\\x\\y.csv"),
        ("mixing.prior=0.1,0.2,0.3,0.4", (0.1, 0.2, 0.3, 0.4)),
        ("mixing.prior=[0.1, 0.2, 0.3, 0.4]", (0.1, 0.2, 0.3, 0.4)),
        ("mixing.prior=", ()),
        ("mixing.prior=[]", ()),
        ("learner.hidden_units=8", (8,)),
        ("learner.hidden_units=8, 4", (8, 4)),
        ("workers.feature_columns=a", ("a",)),
        ("workers.feature_columns=petal width, b", ("petal width", "b")),
        ('workers.feature_columns=["a,b", "c"]', ("a,b", "c")),
        ("workers.feature_columns=[a, b]", ("a", "b")),
        ("workers.feature_columns=1,2", ("1", "2")),
        ("workers.feature_columns=[1, 2.50]", ("1", "2.50")),
    ],
)
def test_values_are_read_as_meant(assignment: str, value: object) -> None:
    assert value_after(assignment) == value


@pytest.mark.parametrize(
    ("assignment", "parts"),
    [
        ("radio.slots", ("--set radio.slots", "must be key=value")),
        ("radio.slots=", ("radio.slots = ''", "whole number")),
        ("radio.slots=many", ("radio.slots = 'many'", "whole number")),
        ("radio.slots='5'", ("radio.slots = '5'", "whole number")),
        ("radio.slots=true", ("radio.slots = True", "whole number")),
        ("radio.slots=1,2", ("radio.slots = '1,2'", "whole number")),
        ("radio.slots=[1]", ("radio.slots = [1]", "whole number")),
        ("radio.slots={a=1}", ("radio.slots = {'a': 1}", "whole number")),
        ("radio.slots=2020-01-01", ("radio.slots = ", "whole number")),
        ("radio.slots=0x" + "f" * 5000, ("radio.slots = ", "whole number")),
        ("radio.slots=" + "[" * 5000, ("radio.slots = ", "whole number")),
        ("radio.noise_dbm=nan", ("radio.noise_dbm = nan", "number")),
        ("radio.noise_dbm=1e999", ("radio.noise_dbm = '1e999'", "number")),
        ("mixing.prior=0.5,,0.5", ("mixing.prior[1] = ''", "number")),
        ("radio=5", ("radio: a table", "radio.slots")),
        ("radio.slot=5", ("radio.slot: unknown key", "did you mean radio.slots?")),
        ("slots=5", ("slots: unknown key", "did you mean radio.slots?")),
        ("Seed=5", ("Seed: unknown key", "did you mean seed?")),
        ("learner.alpha=5", ("learner.alpha: unknown key", "did you mean mixing.alpha?")),
        ("radio.slots.x=5", ("radio.slots.x: unknown key", "did you mean radio.slots?")),
        ("=5", ("--set =5: must be key=value",)),
        ("a\nb=5", ("unknown key",)),
        ("radio.slots=5\nfoo=3", ("radio.slots = ", "whole number")),
        ("x" * 5000 + "=5", ("unknown key",)),
    ],
)
def test_mistakes_are_named(refused: Any, assignment: str, parts: tuple[str, ...]) -> None:
    message = refused(Scenario().with_overrides, assignment)
    assert all(part in message for part in parts), message


def test_extends_belongs_in_a_file_and_is_never_proposed_for_itself(refused: Any) -> None:
    message = refused(Scenario().with_overrides, "extends=paper-iris")
    assert message.startswith("extends: ")
    assert "did you mean extends" not in message


def test_overrides_are_checked_together_and_the_last_one_wins(refused: Any) -> None:
    scenario = Scenario().with_overrides("radio.scheduled=3000", "workers.count=5000")
    assert (scenario.radio.scheduled, scenario.workers.count) == (3000, 5000)
    assert Scenario().with_overrides("seed=1", "seed=2").seed == 2
    assert "at most workers.count = 2000" in refused(Scenario().with_overrides, "radio.scheduled=3000")
    before = Scenario(radio=Radio(slots=5))
    assert before.with_overrides() == before
    assert before.with_overrides("radio.fading=rician").radio == Radio(slots=5, fading="rician")


def test_extends_starts_from_a_preset() -> None:
    text = 'extends = "paper-mnist"\nname = "mine"\n[radio]\nslots = 7\n[learner]\nhidden_units = [3]\n'
    expected = Scenario.preset("paper-mnist").with_overrides("name=mine", "radio.slots=7", "learner.hidden_units=3")
    assert Scenario.from_toml(text) == expected
    assert Scenario.from_toml('extends = "digits"') == Scenario.preset("digits")


@pytest.mark.parametrize(
    "written", ["1", "[]", "{}", "true", '"nothing"', '""', '"../presets/digits"', '"digits.toml"']
)
def test_extends_must_name_a_preset(refused: Any, written: str) -> None:
    message = refused(Scenario.from_toml, f"extends = {written}")
    assert "`airmix presets` lists them" in message


def test_extends_inside_a_table_is_an_unknown_key(refused: Any) -> None:
    assert refused(Scenario.from_toml, '[radio]\nextends = "digits"').startswith("radio.extends: unknown key")


@pytest.mark.parametrize("given", [{"mixing.alpha": 0.1}, ["mixing.alpha=0.1"], 3])
def test_overrides_that_are_no_text_are_refused_in_one_line(given: Any) -> None:
    with pytest.raises(ScenarioError, match=r"^override .*: must be text of the form key=value"):
        Scenario().with_overrides(given)
