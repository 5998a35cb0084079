"""How numbers look."""

import math

import pytest

from airmixml.messages import duration, epsilon_text, epsilon_words, joules, number_text, plural


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (2.5, "2.5 J"),
        (1.0, "1 J"),
        (0.0123456, "12.3 mJ"),
        (3.67e-7, "367 nJ"),
        (1e-12, "1 pJ"),
        (5.14e-15, "0.00514 pJ"),
        (3600.0, "3,600 J"),
        (0.9996, "1 J"),
        (1e-21, "0.000000001 pJ"),
    ],
)
def test_joules(value: float, text: str) -> None:
    assert joules(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *[(7200.0, "2 h"), (90.0, "1.5 min"), (1.0, "1 s"), (3.78e-5, "37.8 µs"), (0.0001234, "123 µs")],
        *[(1e-8, "0.01 µs"), (0.9996, "1 s"), (0.9994, "999 ms"), (3599.0, "1 h"), (59.96, "60 s"), (1e9, "278,000 h")],
        *[(0.0, "0 µs"), (math.inf, "inf h")],
    ],
)
def test_duration(value: float, text: str) -> None:
    assert duration(value) == text


@pytest.mark.parametrize(
    ("epsilon", "cell", "words"),
    [
        (None, "no guarantee", "no guarantee"),
        (math.inf, "no guarantee", "no guarantee"),
        (5e199, "no guarantee", "no guarantee"),
        (4.99499, "4.995", "4.995"),
        (50.1, "50.1", "50.1: no protection"),
        (999.94, "999.9", "999.9: no protection"),
        (999.96, "1,000", "1,000: no protection"),
        (9999.0, "9,999", "9,999: no protection"),
        (12_561.0, "12,600", "about 12,600: no protection"),
        (12_561_000.0, "12.6 million", "about 12.6 million: no protection"),
        (4.169e10, "41.7 billion", "about 41.7 billion: no protection"),
    ],
)
def test_epsilons_are_plain_numbers_and_say_where_they_protect_nobody(
    epsilon: float | None, cell: str, words: str
) -> None:
    assert epsilon_text(epsilon) == cell
    assert epsilon_words(epsilon) == words


def test_plural() -> None:
    assert [plural(count, "slot") for count in (0, 1, 2000)] == ["0 slots", "1 slot", "2,000 slots"]


@pytest.mark.parametrize(
    ("value", "text"),
    [(39_764.2, "39,760"), (-0.49871, "-0.4987"), (12.0, "12"), (0.0, "0"), (1_234_567.0, "1,235,000")],
)
def test_numbers_to_four_digits_without_powers_of_ten(value: float, text: str) -> None:
    assert number_text(value) == text
