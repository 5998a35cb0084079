"""How many colluders who do not know the graph expose no worker: by hand, by brute force and on drawn graphs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.sparse.csgraph import connected_components
from scipy.stats import hypergeom

from airmixml import Scenario
from airmixml.masks.graph import MaskGraph, draw_graph, most_among
from airmixml.masks.rules import fewest_who_know, keep_one_secret, quorum_and_threshold
from airmixml.radio.masking import any_masking, most_withstood

SEATS, DEGREE, ABSENT = 60_000, 48, 3_600  # of trustless-mnist-digital


def exposed_by(colluding: int, double_signers: bool, honest: int, threshold: int) -> bool:
    """Return whether some split of a worker's honest neighbours over two lists gives both of its secrets.

    Those who were shown the one list answer with a share of its seed, the others with one of its mask key.
    """
    most = honest if double_signers else 0
    return any(
        colluding + seed >= threshold and colluding + key >= threshold
        for seed in range(honest + 1)
        for key in range(min(most, honest - seed) + 1)
    )


@pytest.mark.parametrize("seats", range(4, 11))
def test_no_split_of_the_honest_workers_gives_both_secrets(seats: int) -> None:
    """Everybody with everybody: brute force over who is shown which list, and over all numbers of colluders."""
    graph = draw_graph(seats, seats - 1, 0)
    for planned in range(seats - 2):
        for absent in range(seats - (seats + planned) // 2):
            quorum, threshold = quorum_and_threshold(graph, planned, absent)
            for colluders in range(seats - 1):
                honest = seats - 1 - colluders  # beside the target, which signs the list that calls it present
                two_lists = any(
                    colluders + 1 + first >= quorum and colluders + honest - first >= quorum
                    for first in range(honest + 1)
                )
                exposed = exposed_by(colluders, two_lists, honest, threshold)
                assert not (keep_one_secret(graph, quorum, threshold, colluders) and exposed)
                assert two_lists == (colluders >= 2 * quorum - seats)


def test_by_hand_of_sixty_thousand() -> None:
    """At 6 % absent and without colluders as planned 43,200 sign; before, 30,001 did, and two could sign two lists."""
    graph = draw_graph(SEATS, DEGREE, 0)
    assert quorum_and_threshold(graph, 0, ABSENT) == ((30_001 + 56_400) // 2, 25) == (43_200, 25)
    assert keep_one_secret(graph, 43_200, 25, 730)
    assert not keep_one_secret(graph, 30_001, 25, 2)  # 2 x 30,001 - 60,000 sign twice
    assert keep_one_secret(graph, 30_001, 25, 1)
    # What two neighbours who sign twice did: with 600 colluders 8.3 % of the workers had two.
    assert hypergeom.sf(1, SEATS - 1, 600, DEGREE) == pytest.approx(0.083, abs=0.001)
    assert hypergeom.sf(1, SEATS - 1, 8, DEGREE) > 1e-5  # eight spend more than a delta of 1e-5
    # What it takes now is 25 colluding neighbours, or so many as cut the graph.
    assert SEATS * hypergeom.sf(24, SEATS - 1, 600, DEGREE) < 1e-30


@pytest.mark.long
def test_those_who_know_the_graph_must_hold_half_of_the_masks_of_one_worker() -> None:
    graph = draw_graph(SEATS, DEGREE, 0)
    repeated = int(graph.adjacency.data.max())
    assert 25 / repeated <= fewest_who_know(graph, 43_200, 25) <= 25
    assert fewest_who_know(graph, 30_001, 25) == 2


def test_the_number_that_is_stated_is_that_of_exact_tails() -> None:
    """Of 48 masks 21 may be with absent workers; a graph of second eigenvalue 14.35 (+ 3 %) is whole with 15 others."""
    scenario = Scenario.preset("trustless-mnist-digital")
    most = most_withstood(scenario)
    graph = any_masking(scenario).graph
    assert most is not None
    assert graph is not None
    assert most >= 600
    room = DEGREE - most_among(DEGREE, ABSENT, SEATS) - 1.03 * graph.second_eigenvalue
    colluding = math.ceil(room) - 1  # the gap that is left is positive
    assert SEATS * hypergeom.sf(colluding, SEATS - 1, most, DEGREE) <= 1e-9
    assert SEATS * hypergeom.sf(colluding, SEATS - 1, most + 20, DEGREE) > 0.9e-9  # a binomial tail is a little larger
    # In any of the 21 slots and 4 graphs of each, for any worker: below a hundredth of delta.
    assert 0.01 * scenario.privacy.delta >= 21 * 4 * 1e-9


def test_a_small_delta_leaves_fewer() -> None:
    """A hundredth of delta over four graphs: of 1e-9 it is 2.5e-12, for all workers together."""
    scenario = Scenario.preset("trustless-digits-digital")
    most = most_withstood(scenario)
    fewer = most_withstood(scenario.with_overrides("privacy.delta=1e-9"))
    assert most is not None
    assert fewer is not None
    assert 12 <= fewer < most
    assert 1200 * hypergeom.sf(17, 1199, most, 72) <= 1e-9
    assert 1200 * hypergeom.sf(17, 1199, fewer, 72) <= 2.5e-12


def colluding_neighbours(graph: MaskGraph, colluders: int, generator: np.random.Generator) -> np.ndarray:
    """Draw colluders, and return how many masks each worker shares with them, -1 for the colluders; shape seats."""
    chosen = generator.permutation(graph.seats)[:colluders]
    colludes = np.zeros(graph.seats)
    colludes[chosen] = 1.0
    shared = np.asarray(graph.adjacency @ colludes)
    shared[chosen] = -1.0
    return shared


@pytest.mark.long
@pytest.mark.parametrize("colluders", [8, 600, 730])
def test_on_drawn_graphs(colluders: int) -> None:
    """Monte Carlo: how many had two colluding neighbours (who sign twice), against the hypergeometric tail; how many
    neighbours collude at most; and that the graph of those who are left falls apart in no draw."""
    generator, draws, exposed = np.random.default_rng(colluders), 3, 0
    for seed in range(draws):
        graph = draw_graph(SEATS, DEGREE, 100 + seed)
        shared = colluding_neighbours(graph, colluders, generator)
        exposed += int((shared >= 2.0).sum())
        assert shared.max() <= 12.0  # what most_among says of 730
        honest = np.flatnonzero(shared >= 0.0)
        left = generator.permutation(honest)[ABSENT:]
        assert connected_components(graph.adjacency[left][:, left])[0] == 1
    expected = draws * SEATS * float(hypergeom.sf(1, SEATS - 1, colluders, DEGREE))
    # Neighbours are in pairs of a cycle, whose workers share colluders: counts vary a little more than coins.
    assert abs(exposed - expected) <= 6.0 * math.sqrt(expected * 3.0) + 3.0
