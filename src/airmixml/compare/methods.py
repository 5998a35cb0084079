"""What a method of a comparison is, and which methods are run.

To add one, write a file with an object that has what ``Method`` lists, and name it in ``airmixml.doors.METHODS`` or,
from another package, in an entry point of the group ``airmixml.methods``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from airmixml.data import known_dataset
from airmixml.doors import METHODS
from airmixml.errors import ScenarioError
from airmixml.scenario import Scenario, Speed

if TYPE_CHECKING:
    from airmixml.compare.work import Outcome, Work

_MOST_SAMPLES_ON_A_CPU: Final = 20_000


class Method(Protocol):
    """One way to learn from the workers of a scenario; classes that derive from it inherit what they leave out."""

    about: str
    """What it is, in a few words."""

    def run(self, work: Work) -> Outcome:
        """Learn on the data and workers of ``work``, within its privacy target, and say what it gave and cost."""
        ...

    def missing(self) -> str:
        """Return why it cannot be run on this machine; empty where it can."""
        return ""

    def skipped(self, scenario: Scenario, speed: Speed) -> str:
        """Return why it is run only if asked for by name; empty where it is run anyway."""
        return ""


def slow_on_a_cpu(scenario: Scenario, speed: Speed) -> str:
    """Return why a network is not trained on these data unless asked for; empty where it is."""
    known = known_dataset(scenario.workers.dataset)
    samples = max(scenario.workers.count, 0 if known is None else known.train_samples)
    slow = samples > _MOST_SAMPLES_ON_A_CPU and speed.device == "cpu"
    return "takes long on a CPU: name it in --methods or use --device cuda" if slow else ""


def load_methods(*names: str) -> dict[str, Method]:
    """Return methods by name; a wrong name is refused before anything is imported."""
    for name in names:
        if name not in METHODS:
            METHODS.load(name)  # raises
    return {name: METHODS.load(name) for name in names}


def choose_methods(asked: str | None, scenario: Scenario, speed: Speed) -> tuple[dict[str, Method], dict[str, str]]:
    """Return the methods to run by name, and why the others are left out.

    Args:
        asked: names with commas between them; None for all that can run.
        scenario: what is compared at.
        speed: where it runs.
    """
    if scenario.mixing.power != "dp":
        raise ScenarioError(
            f'mixing.power = "{scenario.mixing.power}": must be "dp" for a comparison, whose methods all keep one '
            "privacy target; use --set mixing.power=dp"
        )
    if asked is not None:
        chosen = load_methods(*(name.strip() for name in asked.split(",")))
        for name, method in chosen.items():
            if method.missing():
                raise ScenarioError(f"--methods {name}: {method.missing()}")
        return chosen, {}
    known = load_methods(*METHODS.names)
    left_out = {name: method.missing() or method.skipped(scenario, speed) for name, method in known.items()}
    return (
        {name: method for name, method in known.items() if not left_out[name]},
        {name: why for name, why in left_out.items() if why},
    )
