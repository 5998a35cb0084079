"""Who shares masks with whom, and how much noise that leaves: against inverses and eigenvalues written out."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airmixml import Scenario, simulate
from airmixml.masks.graph import MaskGraph, draw_graph
from airmixml.masks.hidden_noise import most_absent_neighbours, suitable_degree, who_is_left
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


@pytest.mark.parametrize("taken_out", [0, 20, 60])
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


@pytest.mark.parametrize("lie", ["at random", "around one worker"])
def test_it_holds_whoever_the_server_calls_absent(lie: str) -> None:
    graph = draw_graph(400, suitable_degree(400, 10, 40), 1)
    left, rule = who_is_left(graph, 10, 40), most_absent_neighbours(graph, 40)
    adjacency = np.diag(np.diag(laplacian(graph))) - laplacian(graph)
    rng = np.random.default_rng(2)
    colluders = rng.permutation(np.arange(1, 400))[:10]
    order = rng.permutation(400) if lie == "at random" else np.argsort(-adjacency[0], kind="stable")
    absent: list[int] = []
    for worker in order:  # the longest list that workers would answer
        tried = [*absent, int(worker)]
        present = np.setdiff1d(np.arange(400), tried)
        if len(tried) <= 40 and adjacency[np.ix_(present, tried)].sum(axis=1).max() <= rule and worker != 0:
            absent = tried
    honest = np.setdiff1d(np.arange(400), [*absent, *colluders.tolist()])
    of_honest = laplacian(graph, honest)
    assert np.diag(of_honest).min() >= left.neighbours
    inverse = np.diag(np.linalg.inv(np.eye(len(honest)) + 30.0 * of_honest))
    assert left.inverse(1.0, 30.0) >= inverse.max()
