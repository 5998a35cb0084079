"""Graphs of masks counted out edge by edge, chances as fractions, and bounds by their formula."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from airmixml.masks.graph import (
    Honest,
    connected_degree,
    draw_graph,
    most_absent_neighbours,
    most_among,
    suitable_degree,
    who_is_left,
)
from airmixml.masks.keys import word_bytes
from airmixml.masks.rules import (
    choose_rules,
    is_recoverable,
    majority,
    most_recoverable,
    quorum_and_threshold,
    recovering_degree,
)


def least_of_coins(degree: int, chosen: int, seats: int, failure: Fraction) -> int:
    """The least m with P(more than m of the k neighbours are chosen) <= failure / n, each with chance c / (n - 1)."""
    chance = min(Fraction(chosen, seats - 1), Fraction(1))

    def tail(most: int) -> Fraction:
        return sum(
            (math.comb(degree, j) * chance**j * (1 - chance) ** (degree - j) for j in range(most + 1, degree + 1)),
            Fraction(0),
        )

    return next(most for most in range(degree + 1) if tail(most) <= failure / seats)


@pytest.mark.parametrize("failure", [1e-9, 1e-3, 0.2])
@pytest.mark.parametrize("seats", [6, 9, 14, 31])
def test_chosen_neighbours_are_a_sample_of_all_other_seats(seats: int, failure: float) -> None:
    for degree in range(2, min(seats - 1, 9), 2):
        for chosen in range(seats + 1):
            exact = least_of_coins(degree, chosen, seats, Fraction(failure))
            assert most_among(degree, chosen, seats, failure) == exact
    assert most_among(seats - 1, 3, seats, failure) == 3
    assert most_among(seats - 1, seats + 3, seats, failure) == seats - 1


@pytest.mark.parametrize(
    ("seats", "degree", "seed"), [(9, 4, 0), (9, 4, 1), (30, 8, 2), (63, 6, 3), (64, 6, 3), (70, 6, 3)]
)
def test_a_drawn_graph_is_cycles_through_all_seats(seats: int, degree: int, seed: int) -> None:
    graph = draw_graph(seats, degree, seed)
    assert (graph.degree, graph.seats, graph.complete, len(graph.edges)) == (degree, seats, False, seats * degree // 2)
    for cycle in graph.successors:
        seat, seen = 0, set[int]()
        for _ in range(seats):
            seen.add(seat)
            seat = int(cycle[seat])
        assert (seat, len(seen)) == (0, seats)
    counts = np.zeros((seats, seats), dtype=int)
    for one, other in graph.edges:
        counts[one, other] += 1
        counts[other, one] += 1
    assert graph.neighbours == {seat: tuple(np.repeat(np.arange(seats), counts[seat])) for seat in range(seats)}
    assert graph.most_repeated == (counts**2).sum(axis=1).max() - degree
    second = np.sort(np.linalg.eigvalsh(counts.astype(float)))[-2]
    if seats < 64:
        assert graph.second_eigenvalue == graph.checked_eigenvalue == pytest.approx(second, rel=1e-10)
    else:
        assert 1.01 * second <= graph.second_eigenvalue <= 1.051 * second
        assert 1.01 * second <= graph.checked_eigenvalue <= 1.051 * second
    for masks in range(1, degree + 1):
        shared = (np.cumsum(np.sort(counts, axis=1)[:, ::-1], axis=1) >= masks).argmax(axis=1) + 1
        assert graph.fewest_sharing(masks) == shared.min()


def test_everybody_with_everybody() -> None:
    for seats, degree in ((9, 8), (9, 10), (8, 8)):
        graph = draw_graph(seats, degree, 0)
        assert graph.complete
        assert (graph.degree, len(graph.edges)) == (seats - 1, seats * (seats - 1) // 2)
        assert (graph.second_eigenvalue, graph.checked_eigenvalue, graph.most_repeated) == (-1.0, -1.0, 0)
        assert graph.fewest_sharing(3) == 3
        assert graph.neighbours[2] == tuple(seat for seat in range(seats) if seat != 2)
    assert not draw_graph(10, 8, 0).complete
    assert most_absent_neighbours(draw_graph(9, 8, 0), 3) == 8
    assert most_absent_neighbours(draw_graph(31, 8, 0), 3) == least_of_coins(8, 3, 31, Fraction(1e-9))


def test_noise_behind_masks_by_hand() -> None:
    """1 / (|H| s^2) + (1 + r / gap) / (d e^2), at most 1 / s^2."""
    left = Honest(count=10, neighbours=4, gap=2.0, repeats=1.5)
    assert not left.is_cut
    assert left.inverse_per_pair == pytest.approx(1.75 / 4)
    assert left.inverse(2.0, 5.0) == pytest.approx(0.05 + 1.75 / 20)
    assert left.inverse(2.0, 0.1) == 0.5  # weak masks hide less than its own noise
    assert left.inverse(2.0, 0.0) == 0.5
    for cut in (
        Honest(count=10),
        Honest(count=10, neighbours=4),
        Honest(count=10, gap=2.0),
        Honest(count=10, neighbours=4, gap=-1.0),
    ):
        assert cut.is_cut
        assert (cut.inverse_per_pair, cut.inverse(2.0, 5.0), cut.failure, cut.repeats) == (math.inf, 0.5, 0.0, 1.0)
    one = Honest(count=2, neighbours=1, gap=0.5)
    assert not one.is_cut
    assert one.inverse_per_pair == pytest.approx(3.0)


@pytest.mark.parametrize(("colluders", "absent"), [(0, 0), (2, 0), (0, 3), (2, 3), (9, 9)])
def test_who_is_left_of_cycles(colluders: int, absent: int) -> None:
    graph = draw_graph(31, 8, 1)
    left, failure = who_is_left(graph, colluders, absent), Fraction(1e-9)
    colluding, missing = (least_of_coins(8, chosen, 31, failure) for chosen in (colluders, absent))
    kept = 8 - min(colluding + missing, 8)
    assert (left.count, left.neighbours) == (31 - colluders - absent, kept)
    assert left.gap == pytest.approx(kept - graph.second_eigenvalue)
    assert left.repeats == pytest.approx(1.0 + graph.most_repeated / max(kept, 1))
    assert left.failure == (4e-9 if 0 < colluding < 8 else 0.0)


def test_who_is_left_of_everybody() -> None:
    left = who_is_left(draw_graph(9, 8, 0), 2, 3)
    assert (left.count, left.neighbours, left.gap, left.repeats, left.failure) == (4, 3, 4.0, 1.0, 0.0)
    assert who_is_left(draw_graph(9, 8, 0), 5, 4).neighbours == 0
    assert who_is_left(draw_graph(9, 8, 0)).count == 9


@pytest.mark.parametrize(("seats", "colluders", "absent"), [(34, 0, 0), (100, 0, 0), (1000, 50, 0), (60, 20, 0)])
def test_degrees_leave_a_gap(seats: int, colluders: int, absent: int) -> None:
    """Kept of k masks less 2 sqrt(k - 1): a quarter of k, in steps of 8 from 32; or a twentieth, in steps of 2."""

    def gap(degree: int) -> float:
        lost = most_among(degree, colluders, seats) + most_among(degree, absent, seats)
        return degree - lost - 2.0 * math.sqrt(degree - 1)

    def first(degrees: range, share: float) -> int:
        return next((degree for degree in degrees if gap(degree) >= share * degree), seats - 1)

    assert suitable_degree(seats, colluders, absent) == first(range(32, seats - 1, 8), 0.25)
    assert connected_degree(seats, colluders, absent) == first(range(2, seats - 1, 2), 0.05)


# ------------------------------------------------------------------------------------------------------- rules


@pytest.mark.parametrize(("seats", "degree"), [(12, 11), (31, 8), (200, 40)])
@pytest.mark.parametrize("colluders", [0, 1, 5])
def test_what_can_be_recovered(seats: int, degree: int, colluders: int) -> None:
    """Enough sign: above (n + C) / 2; enough shares are left: above (k + c) / 2, where chance spares them.

    The quorum lies half-way between that and all who must be present.
    """
    threshold = (degree + most_among(degree, colluders, seats)) // 2 + 1
    graph = draw_graph(seats, degree, 0)
    for absent in range(seats):
        signs = seats - absent >= (seats + colluders) // 2 + 1
        shares = degree - most_among(degree, absent, seats, 1e-3) >= threshold
        assert is_recoverable(seats, degree, colluders, absent) == (signs and shares)
        least = (seats + colluders) // 2 + 1
        quorum = (least + seats - absent) // 2 if signs else least
        assert quorum_and_threshold(graph, colluders, absent) == (quorum, threshold)
        assert not signs or least <= quorum <= seats - absent
    assert majority(seats, colluders) == (seats + colluders) // 2 + 1


def test_the_most_that_works() -> None:
    assert most_recoverable(20, lambda absent: absent <= 7) == 7
    assert most_recoverable(20, lambda _: False) == 0
    assert most_recoverable(20, lambda _: True) == 19


@pytest.mark.parametrize(
    ("seats", "colluders", "absent"), [(1000, 10, 0), (1000, 10, 100), (1000, 10, 300), (40, 0, 5)]
)
def test_the_degree_with_which_secrets_are_rebuilt(seats: int, colluders: int, absent: int) -> None:
    suitable = suitable_degree(seats, colluders, absent)
    degrees = range(suitable, seats - 1, 8)
    able = (each for each in degrees if is_recoverable(seats, each, colluders, absent))
    assert recovering_degree(seats, colluders, absent) == (next(able, seats - 1) if absent else suitable)


def test_rules_are_a_little_worse_than_the_planned_graph() -> None:
    """3/4 of its gap, 1.5 times its repeats and eight; masks so much stronger that they hide as much."""
    graph = draw_graph(200, 40, 1)
    left = who_is_left(graph, 2, 5)
    rules = choose_rules(graph, colluders=2, absent=5, mask_deviation=3.0, self_deviation=7.0, bits=0)
    assert rules.most_repeats == math.floor(1.5 * graph.most_repeated) + 8
    room = graph.second_eigenvalue * 3.0 / 200 ** (2 / 3)
    assert rules.second_eigenvalue == pytest.approx(graph.second_eigenvalue + room)
    assert room < 0.25 * left.gap
    few = draw_graph(60, 32, 1)  # where the quarter of the gap is less
    assert choose_rules(
        few, colluders=0, absent=1, mask_deviation=3.0, self_deviation=7.0
    ).second_eigenvalue == pytest.approx(
        few.second_eigenvalue + min(0.25 * who_is_left(few, 0, 1).gap, few.second_eigenvalue * 3.0 / 60 ** (2 / 3))
    )
    repeats = left.repeats + (rules.most_repeats - graph.most_repeated) / left.neighbours
    stronger = (1.0 + repeats / (0.75 * left.gap)) / (1.0 + left.repeats / left.gap)
    assert rules.mask_deviation == pytest.approx(3.0 * math.sqrt(stronger))
    assert (rules.self_deviation, rules.workers, rules.degree, rules.bits) == (7.0, 200, 40, 0)
    assert rules.most_absent == 5
    assert rules.most_absent_neighbours == min(most_among(40, 5, 200), 40 - rules.threshold)


def test_rules_of_a_graph_that_may_be_cut_ask_for_no_gap() -> None:
    graph = draw_graph(100, 48, 1)
    left = who_is_left(graph, 6, 5)
    rules = choose_rules(graph, colluders=6, absent=5, mask_deviation=3.0, self_deviation=7.0)
    assert left.gap < 0.0 < left.neighbours
    assert rules.second_eigenvalue == pytest.approx(left.neighbours)  # which leaves a gap of 0
    assert (rules.mask_deviation, rules.bits) == (3.0, 0)


def test_words_hold_their_bits() -> None:
    """8, 16, 32 or 64 bits, the smallest that does."""
    assert [word_bytes(bits) for bits in (1, 7, 8, 9, 16, 17, 32, 33, 64)] == [1, 1, 1, 2, 2, 4, 4, 8, 8]
