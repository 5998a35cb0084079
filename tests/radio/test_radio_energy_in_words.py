"""How energy follows from power is said beside both: by hand for each kind of count."""

import pytest

from airmixml.radio.system import System
from airmixml.scenario import Scenario


@pytest.mark.parametrize(
    ("preset", "dimensions", "seconds", "words"),
    [
        # A slot of 1 ms; the squared norm of moments is 1 + 1, in symbols of 1 / 794 ms.
        ("paper-iris", (4, 3), 1e-3, "mean power x 1 ms, per worker and slot"),
        ("private-table", (30, 2), 2 / 794e3, "mean power x 1.26 µs x the largest squared norm sent"),
    ],
)
def test_energy_is_counted_as_the_words_say(
    preset: str, dimensions: tuple[int, int], seconds: float, words: str
) -> None:
    scenario = Scenario.preset(preset).settled(379, dimensions[0])
    system = System.of(scenario, *dimensions)
    assert system.joules_per_watt == pytest.approx(seconds, rel=1e-9, abs=0)
    assert scenario.radio.link_kind.energy_in_words(scenario).startswith(words)


def test_powers_of_workers_with_noise_are_means_over_a_slot() -> None:
    """Then power, as tables state it, times the length of a slot is energy."""
    scenario = Scenario.preset("trustless-digits").settled(1300, 64)
    system = System.of(scenario, 64, 10)
    stated = system.link.told_share(system) * system.slot_seconds
    assert stated == pytest.approx(system.joules_per_watt, rel=1e-9, abs=0)
    assert scenario.radio.link_kind.energy_in_words(scenario).startswith("mean power x ")
    digital = Scenario.preset("trustless-digits-digital").radio.link_kind
    assert "packets" in digital.energy_in_words(scenario)
