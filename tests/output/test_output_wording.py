"""Bits of messages."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from airmixml import Scenario
from airmixml.messages import did_you_mean, in_plain_words
from airmixml.scenario.toml import folder_stem

NAMES = ["paper-iris", "private-iris", "digits"]
NOTHING: Any = None


@pytest.mark.parametrize(
    ("word", "question"),
    [
        ("paper-irs", "; did you mean paper-iris?"),
        ("DIGITS", "; did you mean digits?"),
        ("bananas", ""),
        ("", ""),
        ("x" * 10_000, ""),
    ],
)
def test_only_what_is_near_is_suggested(word: str, question: str) -> None:
    assert did_you_mean(word, NAMES) == question
    assert did_you_mean(word, []) == ""
    assert did_you_mean("table9", ["table1", "table2"]) == ""  # none stands out


@pytest.mark.parametrize(
    ("odd", "words"),
    [
        (lambda: {}["epoch"], "epoch is missing"),
        (lambda: NOTHING["epoch"], "its parts are not of the kinds that they should be"),
        (lambda: NAMES[99], "its parts are not of the kinds that they should be"),
        (lambda: json.loads("{"), "not JSON: Expecting property name"),
        (lambda: int("x" * 900), "invalid literal"),
        (lambda: (_ for _ in ()).throw(RecursionError("maximum recursion depth exceeded")), "nested too deeply"),
    ],
)
def test_python_is_put_into_plain_words(odd: Callable[[], Any], words: str) -> None:
    try:
        odd()
    except Exception as problem:
        said = in_plain_words(problem)
    assert words in said
    assert len(said) < 250


def test_folders_of_runs_on_another_channel_profile_have_its_name() -> None:
    on = [
        Scenario.preset("paper-iris").with_overrides(*each) for each in ((), ("air.preset=lab",), ("air.absent=0.1",))
    ]
    assert [folder_stem(each.name, each.air) for each in on] == ["paper-iris", "paper-iris-lab", "paper-iris-air"]
