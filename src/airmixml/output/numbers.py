"""How numbers look in tables, figures and messages."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from airmixml import wording

if TYPE_CHECKING:
    from airmixml.scenario import Scenario

NONE: Final = "–"  # in a cell that has no value


NO_GUARANTEE: Final = wording.NO_GUARANTEE
epsilon_text: Final = wording.epsilon_text  # so that statements, which know no tables, write it the same way
NO_PROTECTION_ABOVE_EPSILON: Final = 50.0
JOULES: Final = (("J", 1.0), ("mJ", 1e-3), ("µJ", 1e-6), ("nJ", 1e-9), ("pJ", 1e-12))
SECONDS: Final = (("h", 3600.0), ("min", 60.0), ("s", 1.0), ("ms", 1e-3), ("µs", 1e-6))
_NEVER_EXACT: Final = 1e4


def epsilon_words(epsilon: float | None) -> str:
    """Return an epsilon for a sentence: "about 12,600: no protection" where it is so large that it protects nobody."""
    if epsilon is None or epsilon_text(epsilon) == NO_GUARANTEE:
        return NO_GUARANTEE
    about = "about " if epsilon >= _NEVER_EXACT else ""
    return f"{about}{epsilon_text(epsilon)}" + (": no protection" if epsilon > NO_PROTECTION_ABOVE_EPSILON else "")


def joules(value: float) -> str:
    """Return an energy with a unit that keeps it readable."""
    return _with_unit(value, JOULES)


def duration(seconds: float) -> str:
    """Return a time with a unit that keeps it readable."""
    return _with_unit(seconds, SECONDS)


def short_count(value: float) -> str:
    """Return a number of things with a unit that keeps it short."""
    return _with_unit(value, (("G", 1e9), ("M", 1e6), ("k", 1e3), ("", 1.0))).rstrip()


def _with_unit(value: float, units: Sequence[tuple[str, float]]) -> str:
    unit, size = unit_for(value, units)
    return f"{value / size:.3g} {unit}"


def unit_for(value: float, units: Sequence[tuple[str, float]]) -> tuple[str, float]:
    """Return the largest unit that the value reaches, or the last one, and its size."""
    return next((each for each in units if value >= each[1]), units[-1])


def plural(count: int, thing: str, ending: str = "s") -> str:
    """Return "1 seed", "2 seeds"; with another ending "2 batches"."""
    return f"{count:,} {thing}{'' if count == 1 else ending}"


def slots_text(slots: int, rounds: int = 0, *, mean: bool = False) -> str:
    """Return "1 slot", "1 slot and 20 rounds" where rounds follow, and where a ``mean`` comes before that it does."""
    before = ", after a slot for the mean" if mean else ""
    return plural(slots, "slot") + (f" and {plural(rounds, 'round')}" if rounds else "") + before


def slots_of(scenario: "Scenario") -> str:
    """Return in which slots and rounds the workers of a scenario send."""
    return slots_text(scenario.radio.slots, scenario.learner.rounds, mean=scenario.workers.centre_on_air)


def own_slots(count: int, *, mean: bool) -> str:
    """Return in how many slots and rounds one worker sent; where a ``mean`` came before, with the slot for it."""
    return plural(count + mean, "slot") + (", one of them for the mean" if mean else "")


def outputs_text(task: str, count: int) -> str:
    """Return "3 classes", "1 target", "5 labels": what a task's labels are."""
    if task == "classification":
        return f"{count:,} class{'' if count == 1 else 'es'}"
    return plural(count, "target" if task == "regression" else "label")


def power_of_ten(value: float) -> str:
    """Return 100000.0 as 10^5, 693500.0 as 6.935e5, and what is below a hundred as it is."""
    if value < 100.0:
        return f"{value:g}"
    mantissa, _, exponent = f"{value:.10e}".partition("e")
    return f"10^{int(exponent)}" if float(mantissa) == 1.0 else f"{float(mantissa):g}e{int(exponent)}"
