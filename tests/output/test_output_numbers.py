"""How numbers look."""

import pytest

from airmixml.output.numbers import duration, epsilon_text, joules, plural, short_count


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (2.5, "2.5 J"),
        (1.0, "1 J"),
        (0.0123456, "12.3 mJ"),
        (3.67e-7, "367 nJ"),
        (1e-12, "1 pJ"),
        (5.14e-15, "0.00514 pJ"),
    ],
)
def test_joules(value: float, text: str) -> None:
    assert joules(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(7200.0, "2 h"), (90.0, "1.5 min"), (1.0, "1 s"), (3.78e-5, "37.8 µs"), (1e-8, "0.01 µs")]
)
def test_duration(value: float, text: str) -> None:
    assert duration(value) == text


@pytest.mark.parametrize(("value", "text"), [(0, "0"), (64, "64"), (7240, "7.24 k"), (3.2e5, "320 k"), (2e9, "2 G")])
def test_short_count(value: float, text: str) -> None:
    assert short_count(value) == text


def test_an_epsilon_that_protects_nobody_is_a_power_of_ten() -> None:
    assert [epsilon_text(value) for value in (None, 4.99499, 9999.0, 43_210.0)] == ["none", "4.995", "9999", "4.3e+04"]
    assert epsilon_text(4.99499, digits=3) == "4.99"


def test_plural() -> None:
    assert [plural(count, "slot") for count in (0, 1, 2000)] == ["0 slots", "1 slot", "2,000 slots"]
