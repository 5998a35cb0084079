"""What methods give on Iris, each run once for all tests that ask."""

from collections.abc import Callable
from functools import cache

import pytest

from airmixml import Scenario
from airmixml.compare import Outcome, Work, load_methods


@pytest.fixture(scope="session")
def on_iris() -> Callable[[str], Outcome]:
    """Return what the method of a name gives with the preset ``private-iris``."""

    @cache
    def outcome(name: str) -> Outcome:
        return load_methods(name)[name].run(Work(scenario=Scenario.preset("private-iris")))

    return outcome
