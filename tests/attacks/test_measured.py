"""The rule of every verdict by simulation: how often guessing counts as found, and a leak does not."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.random import Generator
from scipy.stats import mannwhitneyu

from airmixml.arrays import Doubles
from airmixml.attacks.measured import FALSE_ALARMS, Linkage, Measured, Scores, beyond_chance, counted
from airmixml.attacks.server_attacks import explained_by_chance, explained_share

COMMANDS = 2000
DRAWS = 300


def of_scores(held: Doubles, decoys: Doubles) -> list[Measured]:
    """The two figures of one attack by scores, the first two of those that listeners have."""
    return Linkage.of(Scores(held=held, decoys=decoys), "likelihood").measured(1, alike=True)


def figures_of_a_command(rng: Generator, leak: float = 0.0) -> list[Measured]:
    """Three adversaries who score the same samples, of whom the first may learn something, and names by guessing.

    What they heard has much in common, so their figures depend on each other.
    """
    members, others = 379, 95
    common = rng.standard_normal(members + others)
    figures = []
    for number in range(3):
        scores = common + rng.standard_normal(members + others)
        scores[:members] += leak * np.sqrt(2.0) if number == 0 else 0.0
        figures += of_scores(scores[:members], scores[members:])
        for trials, guessing in ((10, 1 / 379), (100, 1 / 51), (379, 0.63)):
            figures.append(counted("", float(rng.binomial(trials, guessing)) / trials, trials, guessing))
    return figures


def found_in(figures: list[Measured]) -> list[int]:
    cutoff = beyond_chance(figures)
    return [number for number, each in enumerate(figures) if each.p_value <= cutoff]


@pytest.mark.long
def test_guessing_counts_as_found_in_one_of_a_hundred_commands_at_most() -> None:
    """Binomial: more than 35 of 2000 commands at a true rate of 1 % happen once in a thousand times."""
    rng = np.random.default_rng(1)
    alarms = sum(bool(found_in(figures_of_a_command(rng))) for _ in range(COMMANDS))
    assert 2 <= alarms <= 35  # and the rule is no rule that never finds anything


@pytest.mark.long
def test_a_leak_is_found_and_no_other_with_it() -> None:
    """By hand: a shift of 0.45 deviations is an AUC of Phi(0.45 / sqrt(2)) = 0.625, 3.77 deviations of chance from 0.5.

    0.01 / 15 asks for 3.21 of them, so that Phi(0.56) = 71 % are found, up to four standard deviations of 300 draws.
    """
    rng = np.random.default_rng(2)
    commands = [found_in(figures_of_a_command(rng, leak=0.45)) for _ in range(300)]
    assert np.mean([0 in found for found in commands]) == pytest.approx(0.71, abs=0.11)
    assert np.mean([any(number >= 5 for number in found) for found in commands]) < 0.03


@pytest.mark.parametrize(("members", "decoys"), [(100, 25), (379, 95), (40, 300)])
def test_the_p_values_of_scores_are_those_of_a_random_order(members: int, decoys: int) -> None:
    """At most a share x of them is below x, for every x, up to the chance of so many draws."""
    rng, p_values = np.random.default_rng(members), []
    for _ in range(DRAWS):
        scores = rng.exponential(size=members + decoys)
        figures = of_scores(scores[:members], scores[members:])
        p_values.append([each.p_value for each in figures])
        exact = mannwhitneyu(scores[:members], scores[members:], alternative="greater", method="asymptotic").pvalue
        assert figures[0].p_value == pytest.approx(exact, abs=0.02)  # that one corrects for steps
    for limit in (0.002, 0.01, 0.05, 0.3):
        below = (np.array(p_values) <= limit).mean(axis=0)
        assert (below < limit + 3.5 * np.sqrt(limit / DRAWS)).all(), limit
    assert (np.array(p_values)[:, 1] <= 0.3).mean() > 0.02  # no rule that never finds anything


def test_detected_by_hand() -> None:
    """The three first of seven are held, of four and three decoys: 4 x 3 x 2 / (7 x 6 x 5) of all orders."""
    _, figure = of_scores(np.array([7.0, 6.0, 5.0, 1.0]), np.array([4.0, 3.0, 2.0]))
    assert figure.p_value == pytest.approx(24 / 210)
    assert figure.guessing == 1 / 4  # as often as one of three decoys and itself is the first


def test_what_is_seen_of_samples_by_guessing() -> None:
    """Guesses that know how samples are distributed, and none of these: in 1 % of the runs they may look like more."""
    rng, below = np.random.default_rng(3), []
    directions = np.array([1.0, 0.5, 0.3, 0.1])
    for _ in range(1000):
        public, held, guess = (rng.standard_normal((count, 4)) * directions for count in (200, 12, 12))
        guess *= rng.uniform(0.0, 0.5)
        share = explained_share(held, guess, public.mean(axis=0))
        below.append(explained_by_chance(share, 12, public) <= 0.01)
        known = explained_share(held, 0.9 * held, public.mean(axis=0))
    assert np.mean(below) < 0.01 + 3.5 * np.sqrt(0.01 / 1000)
    assert explained_by_chance(known, 12, public) < 1e-9
    assert explained_by_chance(0.0, 12, public) > 0.4


def test_holm_by_hand() -> None:
    def of(*p_values: float) -> float:
        known = {"what": "", "rate": 0.0, "guessing": 0.0}
        return beyond_chance([Measured(p_value=each, **known) for each in p_values])  # type: ignore[arg-type]

    assert FALSE_ALARMS == 0.01
    assert of(0.0033, 0.0049, 0.011) == 0.0049  # 0.01 / 3, 0.01 / 2, and not 0.01
    assert of(0.0034, 0.001, 0.011) == 0.0034
    assert of(0.0034, 0.0034, 0.0034) == -1.0
