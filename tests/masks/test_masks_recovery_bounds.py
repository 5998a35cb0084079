"""What the rules guarantee, against brute force, exact tails and dense matrices."""

from __future__ import annotations

import math

import networkx
import numpy as np
import pytest
from numpy.typing import NDArray
from round_for_tests import regular_graph
from scipy import stats

from airmixml.errors import ProtocolError
from airmixml.masks.hidden_noise import Honest, most_colluding
from airmixml.masks.recovery_bounds import (
    choose_rules,
    kept_edges,
    largest_eigenvalue,
    majority,
    self_deviation,
    smallest_part,
)


@pytest.mark.parametrize("members", range(1, 13))
def test_two_majorities_share_an_honest_member_and_smaller_sets_need_not(members: int) -> None:
    """Brute force over how many members sign the first list, the second, or (colluders) both."""
    for colluding in range(members):
        honest, most = members - colluding, 0
        for first in range(honest + 1):
            most = max(most, min(first, honest - first) + colluding)  # signatures that both lists can have
        assert majority(members, colluding) == most + 1


@pytest.mark.parametrize(
    ("drawn", "share", "failure"), [(50, 0.05, 1e-9), (100, 0.1, 1e-14), (20, 0.3, 1e-3), (400, 0.05, 1e-9)]
)
def test_colluding_neighbours_stay_within_the_limit(drawn: int, share: float, failure: float) -> None:
    population = 10_000
    most = most_colluding(drawn, share, failure)
    assert stats.hypergeom.sf(most, population, round(share * population), drawn) <= failure
    assert stats.binom.sf(most, drawn, share) <= failure
    assert stats.binom.sf(0.75 * most - 2, drawn, share) > failure  # not far above what is needed


def test_colluding_neighbours_at_the_ends() -> None:
    assert most_colluding(10, 0.0, 1e-9) == 0
    assert most_colluding(10, 0.9, 1e-9) == 10
    with pytest.raises(ProtocolError, match=r"colluding_share = 1\.0 must be from 0 to below 1"):
        choose_rules(100, 20, mask_deviation=1.0, self_deviation=1.0, colluding_share=1.0)


def test_the_eigenvalue_is_that_of_a_dense_matrix() -> None:
    graph = regular_graph(80, 12, 1)
    adjacency = networkx.to_numpy_array(networkx.Graph(graph), nodelist=sorted(graph))
    exact = np.linalg.eigvalsh(adjacency)[-2]
    assert exact <= largest_eigenvalue(graph) <= exact * 1.002
    assert largest_eigenvalue(graph, 1e-12) == pytest.approx(exact, rel=1e-9)
    assert largest_eigenvalue({i: [j for j in range(9) if j != i] for i in range(9)}) == pytest.approx(0.0, abs=1e-9)


def inverse_diagonal(
    graph: dict[int, tuple[int, ...]], kept: list[int], noise: float, mask: float
) -> NDArray[np.float64]:
    """(S^-1)_ii on the workers that are kept, by a dense solver."""
    part = networkx.Graph(graph).subgraph(kept)
    laplacian = networkx.laplacian_matrix(part, nodelist=kept).toarray()
    return np.diag(np.linalg.inv(noise**2 * np.eye(len(kept)) + mask**2 * laplacian))


@pytest.mark.parametrize("seed", range(4))
def test_the_bound_holds_for_lists_that_crowd_around_one_worker(seed: int) -> None:
    """The server calls absent as many neighbours of one worker as passes, then of the next; colluders sit there too."""
    workers, degree, alpha = 200, 24, 0.25
    graph = regular_graph(workers, degree, seed)
    generator = np.random.default_rng(seed)
    colluders = {int(each) for each in generator.choice(workers, 6, replace=False)}
    most = max(len(colluders & set(others)) for others in graph.values())
    absent: set[int] = set()
    for victim in generator.permutation(workers)[:60].tolist():
        for candidate in graph[victim]:
            more = absent | {candidate}
            passes = all(len(more & set(graph[i])) <= alpha * degree for i in graph if i not in more)
            if passes and len(more) <= 0.2 * workers:
                absent = more
    kept = [each for each in graph if each not in absent | colluders]
    edges = kept_edges(degree, alpha, most)
    assert min(len(set(graph[each]) & set(kept)) for each in kept) >= edges
    eigenvalue = largest_eigenvalue(graph)
    assert edges > eigenvalue
    assert networkx.is_connected(networkx.Graph(graph).subgraph(kept))
    noise, mask = 0.2, 3.0
    exact = inverse_diagonal(graph, kept, noise, mask)

    def bound(present: int) -> float:
        left = Honest(count=present, neighbours=edges, gap=edges - eigenvalue, repeats=1.0, failure=0.0)
        return left.inverse(noise**2, mask**2)

    assert exact.max() <= bound(len(kept))
    assert bound(len(kept)) < 6 * exact.max()
    assert bound(workers - 6 - math.floor(0.2 * workers)) >= bound(len(kept))


def test_the_bound_is_near_what_is_known_of_a_complete_graph() -> None:
    """There L = N (I - J / N), so S^-1 is known by hand; the bound leaves own noise beside masks out, and 2 / N."""
    count, noise, mask = 60, 0.1, 2.0
    by_hand = 1 / (count * noise**2) + (1 - 1 / count) / (noise**2 + mask**2 * count)
    complete = {i: tuple(j for j in range(count) if j != i) for i in range(count)}
    assert inverse_diagonal(complete, list(range(count)), noise, mask)[0] == pytest.approx(by_hand)
    left = Honest(count=count, neighbours=count - 1, gap=float(count), repeats=1.0, failure=0.0)
    assert by_hand <= left.inverse(noise**2, mask**2) <= by_hand + 3.2 / count / (mask**2 * count)


def test_without_a_gap_only_the_own_noise_counts() -> None:
    left = Honest(count=10, neighbours=3, gap=-2.0, repeats=1.0, failure=0.0)
    assert left.inverse(0.5**2, 100.0**2) == pytest.approx(4.0)


def test_sets_that_keep_their_edges_are_large() -> None:
    """Greedy search for small sets in which all keep 14 of 20 edges: whole groups of neighbours, thinned out."""
    workers, degree, kept = 150, 20, 14
    graph = regular_graph(workers, degree, 3)
    least = smallest_part(workers, degree, largest_eigenvalue(graph), kept)
    assert least > 60
    drawn = networkx.Graph(graph)
    for start in range(30):
        part = set(range(workers))
        far = networkx.single_source_shortest_path_length(drawn, start)
        for candidate in sorted(part, key=lambda each: -far[each]):
            less = part - {candidate}
            if all(len(less & set(graph[each])) >= kept for each in less):
                part = less
        assert len(part) >= least
    two_cliques = {i: tuple(j for j in range(10 * (i // 10), 10 * (i // 10) + 10) if j != i) for i in range(20)}
    assert smallest_part(20, 9, largest_eigenvalue(two_cliques), 9) == pytest.approx(10.0)  # no expander: cut at once


def test_the_own_mask_that_an_absent_worker_needs() -> None:
    deviation = self_deviation(2.0, 0.5, 1.0)
    assert deviation == pytest.approx(math.sqrt(15.0))
    assert 2.0 / math.hypot(1.0, deviation) == pytest.approx(0.5)
    assert self_deviation(1.0, 2.0, 1.0) == 0.0


def test_rules_for_a_large_round() -> None:
    rules = choose_rules(60_000, 100, mask_deviation=1.0, self_deviation=2.0, colluding_share=0.05, witnesses=400)
    colluding = 29  # of 100 neighbours; more have probability below 1e-9 for all 60,000 workers together
    assert 60_000 * stats.binom.sf(colluding, 100, 0.05) < 1e-9
    assert 2 * rules.threshold > 100 + colluding
    assert (1 - rules.largest_absent_neighbour_share) * 100 >= rules.threshold  # an honest server gets enough shares
    among_witnesses = 2 * rules.quorum - 400 - 1
    assert stats.binom.sf(among_witnesses, 400, 0.05) < 1e-9
    everyone = choose_rules(60_000, 100, mask_deviation=1.0, self_deviation=2.0, colluding_share=0.05)
    assert everyone.quorum == 31_501  # above (60,000 + 3,000) / 2


def test_rules_that_cannot_hold_are_refused() -> None:
    deviations = {"mask_deviation": 1.0, "self_deviation": 1.0}
    with pytest.raises(ProtocolError, match=r"degree = 20 leaves a worker .*; take \d+") as refused:
        choose_rules(60_000, 20, colluding_share=0.05, **deviations)
    enough = int(str(refused.value).split()[-1])
    choose_rules(60_000, enough, colluding_share=0.05, **deviations)
    with pytest.raises(ProtocolError, match="take"):
        choose_rules(60_000, enough - 1, colluding_share=0.05, **deviations)
    with pytest.raises(ProtocolError, match="assume fewer colluders"):
        choose_rules(100, 20, colluding_share=0.9, **deviations)
    with pytest.raises(ProtocolError, match=r"largest_absent_share = 0\.5 leaves fewer witnesses"):
        choose_rules(60_000, 100, colluding_share=0.05, largest_absent_share=0.5, **deviations)
