"""Who shares masks with whom, and how much noise that leaves: against inverses and eigenvalues written out."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airmixml import Scenario, simulate
from airmixml.masks.graph import (
    MOST_ROUNDS,
    MaskGraph,
    draw_graph,
    most_absent_neighbours,
    most_among,
    suitable_degree,
    who_is_left,
)
from airmixml.privacy.gaussian import gaussian_epsilon
from airmixml.radio.masking import masking_of


def laplacian(graph: MaskGraph, honest: np.ndarray | None = None) -> np.ndarray:
    adjacency = np.zeros((graph.seats, graph.seats))
    for one, other in graph.edges:
        adjacency[one, other] += 1.0
        adjacency[other, one] += 1.0
    if honest is not None:
        adjacency = adjacency[np.ix_(honest, honest)]
    return np.diag(adjacency.sum(axis=1)) - adjacency


@given(seats=st.integers(3, 80), cycles=st.integers(1, 12), seed=st.integers(0, 5), power=st.floats(-2, 5))
@settings(max_examples=40, deadline=None)
def test_the_bound_is_never_below_the_inverse_and_close_to_it(seats: int, cycles: int, seed: int, power: float) -> None:
    graph = draw_graph(seats, 2 * cycles, seed)
    left, pair = who_is_left(graph), 10.0**power
    inverse = np.diag(np.linalg.inv(np.eye(seats) + pair * laplacian(graph)))
    bound = left.inverse(1.0, pair)
    assert bound >= inverse.max() * (1.0 - 1e-9)
    if graph.degree >= 12 and pair >= 1.0:
        assert bound <= 1.35 * inverse.max() + 1e-12


@pytest.mark.parametrize("taken_out", [0, 60])
def test_it_holds_whoever_is_taken_out_without_regard_to_the_graph(taken_out: int) -> None:
    graph = draw_graph(400, suitable_degree(400, taken_out), 1)
    left = who_is_left(graph, taken_out)
    assert not left.is_cut
    rng = np.random.default_rng(2)
    for _ in range(5):
        honest = rng.permutation(400)[taken_out:]
        of_honest = laplacian(graph, honest)
        assert np.diag(of_honest).min() >= left.neighbours
        assert np.linalg.eigvalsh(of_honest)[1] >= left.gap
        inverse = np.diag(np.linalg.inv(np.eye(len(honest)) + 30.0 * of_honest))
        assert left.inverse(1.0, 30.0) >= inverse.max()


def test_everybody_with_everybody_has_a_closed_form() -> None:
    graph = draw_graph(10, 32, 0)
    assert graph.complete
    assert graph.degree == 9
    own, pair, honest = 2.0, 5.0, 7
    # Eigenvalues s^2 of the constant vector and s^2 + n e^2 of all others.
    exact = 1.0 / (honest * own) + (1.0 - 1.0 / honest) / (own + honest * pair)
    assert exact <= who_is_left(graph, 3).inverse(own, pair) <= 1.2 * exact


def test_the_second_eigenvalue_is_that_of_a_dense_solver() -> None:
    for seats, degree in ((50, 8), (500, 16)):
        graph = draw_graph(seats, degree, 4)
        second = degree - np.linalg.eigvalsh(laplacian(graph))[1]
        assert second <= graph.second_eigenvalue * (1.0 + 1e-9) <= 1.06 * second


def test_every_seat_has_the_degree() -> None:
    graph = draw_graph(60, 10, 0)
    assert (np.bincount(graph.edges.ravel(), minlength=60) == 10).all()


def test_the_target_is_kept_against_a_listener_whose_covariance_is_written_out() -> None:
    """Of 200 workers everything is written out: mu^2 = q^2 D^2 (S^-1)_ii, to the stated epsilon."""
    asked = Scenario.preset("trustless-iris").with_overrides("workers.count=200", "radio.scheduled=200")
    report = simulate(asked).report
    masking = masking_of(asked)
    assert masking is not None
    assert masking.graph is not None
    covariance = masking.own_watts * np.eye(200) + masking.pair_watts * laplacian(masking.graph)
    inverse = np.diag(np.linalg.inv(covariance)).max()
    received = report.ledger.received_watts.max()  # beta q^2
    largest = gaussian_epsilon(float(np.sqrt(received * report.sensitivity.removal * inverse)), asked.privacy.delta)
    stated = report.privacy
    assert stated.adversary == "everyone"
    assert stated.epsilon <= 5.0
    assert 0.95 * stated.epsilon <= largest <= stated.epsilon


def test_a_degree_that_suits_is_small_but_grows_with_those_who_are_taken_out() -> None:
    assert suitable_degree(60_000) == 32
    assert 32 < suitable_degree(60_000, 6_000) < suitable_degree(60_000, 18_000) < 512
    assert suitable_degree(20, 0) == 19


def longest_list(adjacency: np.ndarray, order: np.ndarray, most: int, rule: int) -> list[int]:
    """The longest list of absent workers, in this order, that workers would answer, and that spares worker 0."""
    absent, around = list[int](), np.zeros(len(adjacency))
    for worker in order:
        if worker and len(absent) < most:
            after = around + adjacency[worker]
            if np.delete(after, [*absent, worker]).max() <= rule:
                absent, around = [*absent, int(worker)], after
    return absent


@pytest.mark.parametrize("lie", ["at random", "around one worker"])
@pytest.mark.parametrize(
    ("seats", "colluders", "absent"),
    [
        *((60, 5, 3), (150, 0, 30), (250, 50, 0), (250, 3, 60)),
    ],
)
def test_it_holds_whoever_colludes_and_whoever_the_server_calls_absent(
    seats: int, colluders: int, absent: int, lie: str
) -> None:
    """Seven settings, two lists each: the whole covariance inverted, against the bound."""
    graph = draw_graph(seats, suitable_degree(seats, colluders, absent), 1)
    left, rule = who_is_left(graph, colluders, absent), most_absent_neighbours(graph, absent)
    adjacency = np.diag(np.diag(laplacian(graph))) - laplacian(graph)
    rng = np.random.default_rng(2)
    colluding = rng.permutation(np.arange(1, seats))[:colluders]
    order = rng.permutation(seats) if lie == "at random" else np.argsort(-adjacency[0], kind="stable")
    called = longest_list(adjacency, order, absent, rule)
    assert len(called) >= 0.8 * absent
    honest = np.setdiff1d(np.arange(seats), [*called, *colluding.tolist()])
    of_honest = laplacian(graph, honest)
    assert np.diag(of_honest).min() >= left.neighbours
    for pair in (1.0, 30.0, 1e4):
        inverse = np.diag(np.linalg.inv(np.eye(len(honest)) + pair * of_honest))
        assert left.inverse(1.0, pair) >= inverse.max()


@pytest.mark.parametrize(("seats", "degree", "colluders"), [(40, 8, 6)])
def test_the_failure_is_at_least_that_of_many_graphs(seats: int, degree: int, colluders: int) -> None:
    """2,000 graphs: how often some worker has more colluding neighbours than allowed for, within 4.5 errors of 5 %.

    Two fewer would be exceeded too often, and a party that takes the worst of the graphs it may have drawn is covered.
    """
    graphs, failure = 2_000, 0.05
    most = most_among(degree, colluders, seats, failure)
    found = np.empty(graphs)
    for seed in range(graphs):  # the first ones collude, chosen before the graph is drawn
        after = draw_graph(seats, degree, seed).successors
        shared = (after < colluders).sum(axis=0)
        for cycle in after:
            shared[cycle[:colluders]] += 1
        found[seed] = shared[colluders:].max()
    error = np.sqrt(failure / graphs)
    assert np.mean(found > most) <= failure + 4.5 * error
    assert np.mean(found > most - 2) > failure + 4.5 * error
    worst = (found > most).reshape(-1, MOST_ROUNDS).any(axis=1).mean()
    assert worst <= MOST_ROUNDS * failure + 4.5 * np.sqrt(MOST_ROUNDS * failure / (graphs / MOST_ROUNDS))
    assert who_is_left(draw_graph(seats, degree, 0), 1).failure == pytest.approx(MOST_ROUNDS * 1e-9)
    assert who_is_left(draw_graph(seats, degree, 0)).failure == 0.0


def test_all_neighbours_of_a_worker_leave_it_its_own_noise() -> None:
    graph = draw_graph(100, 8, 5)
    adjacency = np.diag(np.diag(laplacian(graph))) - laplacian(graph)
    counts = (adjacency > 0).sum(axis=1)
    assert graph.fewest_sharing(graph.degree) == counts.min() < 8  # some share two masks
    victim = int(counts.argmin())
    honest = np.flatnonzero(adjacency[victim] == 0)
    covariance = 2.0 * np.eye(len(honest)) + 30.0 * laplacian(graph, honest)
    inverse = np.linalg.inv(covariance)[(place := list(honest).index(victim)), place]
    assert inverse == pytest.approx(1 / 2.0)
    assert draw_graph(7, 8, 0).fewest_sharing(6) == 6


@pytest.mark.parametrize(("seats", "degree"), [(40, 8), (80, 8), (300, 32)])
def test_a_worker_checks_the_second_eigenvalue_without_scipy(seats: int, degree: int) -> None:
    for seed in range(3):
        graph = draw_graph(seats, degree, seed)
        exact = np.linalg.eigvalsh(graph.adjacency.toarray())[-2]
        assert exact * 0.99 < graph.checked_eigenvalue < exact * 1.06
