"""The rules of a round: against brute force, exact tails, and rounds with real keys under the rules of a scenario."""

from __future__ import annotations

import csv
import math
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from round_for_tests import ready_round, sent_symbols
from scipy import stats
from scipy.sparse import csr_array

from airmixml import PrivacyError, Scenario
from airmixml.masks.graph import MaskGraph, draw_graph, most_among, who_is_left
from airmixml.masks.recovery import RecoveryServer
from airmixml.masks.rules import Rules, choose_rules, is_recoverable, majority, recovering_degree
from airmixml.messages import ProtocolError
from airmixml.radio.masking import Masking, masking_of, rules_of

SIZES = {"mask_deviation": 1.0, "self_deviation": 2.0}


@pytest.mark.parametrize("members", range(1, 13))
def test_two_majorities_share_an_honest_member_and_smaller_sets_need_not(members: int) -> None:
    """Brute force over how many members sign the first list, the second, or (colluders) both."""
    for colluding in range(members):
        honest, most = members - colluding, 0
        for first in range(honest + 1):
            most = max(most, min(first, honest - first) + colluding)  # signatures that both lists can have
        assert majority(members, colluding) == most + 1


@pytest.mark.parametrize(
    ("degree", "chosen", "failure"), [(50, 500, 1e-9), (100, 1000, 1e-14), (20, 3000, 1e-3), (400, 500, 1e-9)]
)
def test_chosen_neighbours_stay_within_the_limit(degree: int, chosen: int, failure: float) -> None:
    seats = 10_000
    most = most_among(degree, chosen, seats, failure)
    assert seats * stats.hypergeom.sf(most, seats - 1, chosen, degree) <= failure
    assert seats * stats.binom.sf(0.75 * most - 2, degree, chosen / seats) > failure  # not far above what is needed


def test_chosen_neighbours_at_the_ends() -> None:
    assert most_among(10, 0, 100) == 0
    assert most_among(10, 95, 100) == 10
    assert [most_among(99, chosen, 100) for chosen in (7, 100)] == [7, 99]  # everybody with everybody: no chance in it


def large_graph(degree: int) -> MaskGraph:
    """A graph of 60,000 seats of which nobody asks for edges."""
    graph = MaskGraph(seats=60_000, successors=np.zeros((degree // 2, 1), dtype=np.int64))
    graph.__dict__.update(second_eigenvalue=2 * math.sqrt(degree - 1), most_repeated=6)
    return graph


def test_rules_for_a_large_round() -> None:
    rules = choose_rules(large_graph(160), colluders=3_000, absent=1_200, **SIZES)
    colluding = 2 * rules.threshold - 160 - 1  # more than that could rebuild both secrets of a worker
    assert 60_000 * stats.binom.sf(colluding, 160, 0.05) < 1e-9
    assert rules.quorum == 45_150  # half-way from 31,501, above (60,000 + 3,000) / 2, to the 58,800 who are present
    assert rules.most_absent == 1_200
    assert 160 - rules.most_absent_neighbours >= rules.threshold  # a list that passes can be answered
    assert 60_000 * stats.binom.sf(rules.most_absent_neighbours, 160, 0.02) < 1e-3  # and an honest one does pass


@pytest.mark.parametrize(("seats", "degree", "colluders", "absent"), [(60, 32, 0, 1), (300, 40, 5, 6)])
def test_masks_hide_as_planned_on_every_graph_that_passes_and_nearly_all_pass(
    seats: int, degree: int, colluders: int, absent: int
) -> None:
    planned = draw_graph(seats, degree, 0)
    rules = choose_rules(planned, colluders=colluders, absent=absent, **SIZES)
    wanted, passed = who_is_left(planned, colluders, absent).inverse_per_pair, 0
    assert 1.0 < rules.mask_deviation**2 < 1.5
    for seed in range(1, 51):
        drawn = draw_graph(seats, degree, seed)
        if drawn.most_repeated <= rules.most_repeats and drawn.second_eigenvalue <= rules.second_eigenvalue:
            passed += 1
            assert who_is_left(drawn, colluders, absent).inverse_per_pair / rules.mask_deviation**2 <= wanted
    assert passed >= 48
    complete = choose_rules(draw_graph(12, 11, 0), colluders=1, absent=2, **SIZES)
    assert (complete.most_repeats, complete.second_eigenvalue, complete.mask_deviation) == (0, -1.0, 1.0)


def test_what_no_quorum_or_threshold_could_recover_is_refused_with_what_it_could() -> None:
    for graph, colluders in ((draw_graph(1200, 64, 0), 0), (draw_graph(41, 40, 0), 3), (draw_graph(40, 40, 0), 3)):
        with pytest.raises(ProtocolError, match=r"absent = \d+ of .* must be at most \d+") as refused:
            choose_rules(graph, colluders=colluders, absent=graph.seats // 2, **SIZES)
        most = int(str(refused.value).split()[-1])
        assert most > 0
        choose_rules(graph, colluders=colluders, absent=most, **SIZES)
        with pytest.raises(ProtocolError):
            choose_rules(graph, colluders=colluders, absent=most + 1, **SIZES)


def test_by_hand_everybody_with_everybody() -> None:
    # 12 workers: 7 must sign, and of 11 neighbours 6 must answer; with 2 colluders 8, and 7.
    assert [is_recoverable(12, 11, 0, absent) for absent in (5, 6)] == [True, False]
    assert [is_recoverable(12, 11, 2, absent) for absent in (4, 5)] == [True, False]


def test_a_chosen_degree_lets_secrets_be_rebuilt() -> None:
    assert recovering_degree(60_000, 0, 0) == 32
    for seats, colluders, absent in ((60_000, 0, 18_000), (1_200, 20, 300), (1_200, 0, 599)):
        degree = recovering_degree(seats, colluders, absent)
        assert is_recoverable(seats, degree, colluders, absent)


def documented_rows() -> list[list[str]]:
    path = Path(__file__).parents[2] / "benchmarks" / "results" / "recovery_rules.csv"
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))[1:]


def test_the_documented_rules_are_those_that_are_chosen() -> None:
    rows = documented_rows()
    assert len(rows) == 6
    for row in rows:
        colluders, absent = (round(600 * float(cell.split()[0])) for cell in row[:2])
        degree = recovering_degree(60_000, colluders, absent)
        rules = choose_rules(large_graph(degree), colluders=colluders, absent=absent, **SIZES)
        colluding = most_among(degree, colluders, 60_000)
        kept, second = degree - colluding - most_among(degree, absent, 60_000), 2 * math.sqrt(degree - 1)
        with_lies, without = ((1 + 1 / (each - second)) / each for each in (kept, degree))
        power = f"+{10 * math.log10(with_lies / without):.1f} dB"
        counts = (degree, colluding, rules.threshold, rules.most_absent_neighbours, kept)
        assert row[2:] == [str(rules.quorum), *map(str, counts), f"{second:.1f}", power]


def settled(*changes: str, seats: int = 30) -> tuple[Masking, Rules]:
    """Masks and rules of a small scenario."""
    sizes = (f"workers.count={seats}", f"radio.scheduled={seats}")
    asked = Scenario.preset("trustless-digits").with_overrides(*sizes, *changes)
    masking = masking_of(asked)
    assert masking is not None
    rules = rules_of(asked, masking)
    assert rules is not None
    return masking, rules


@pytest.mark.parametrize(("seats", "absent", "degree"), [(30, 0.46, 0), (50, 0.06, 32)])
def test_what_a_scenario_recovers_the_protocol_recovers_under_its_rules(seats: int, absent: float, degree: int) -> None:
    masking, rules = settled(f"privacy.most_absent={absent}", f"privacy.mask_degree={degree}", seats=seats)
    assert masking.graph is not None
    assert rules.mask_deviation**2 >= masking.pair_watts * (1 - 1e-12)
    assert rules.self_deviation**2 == pytest.approx(masking.self_watts)
    rules = replace(rules, mask_deviation=5.0, self_deviation=11.0)
    party = ready_round(seats, rules=rules, seed=1)
    gone = {int(each) for each in np.random.default_rng(1).permutation(seats)[: rules.most_absent]}
    present = [each for each in range(seats) if each not in gone]
    values = np.random.default_rng(2).standard_normal((seats, 40))
    sent = sent_symbols(party, values, [(0, 0, 40)])
    server = RecoveryServer(party.joined, gone)
    for answer in party.answers(party.lists_signed(gone, present), present):
        server.take(answer)
    left = sent[present].sum(axis=0) - server.correction(0, 0, 40) - values[present].sum(axis=0)
    assert np.abs(left).max() < 1e-9


@pytest.mark.parametrize("degree", [0, 22])
def test_what_the_protocol_cannot_recover_a_scenario_refuses(degree: int) -> None:
    fixed = f"privacy.mask_degree={degree}"
    with pytest.raises(PrivacyError, match=r"^privacy\.most_absent = 0\.6: 18 of the 30 workers .* at most") as refused:
        settled("privacy.most_absent=0.6", fixed)
    most = float(str(refused.value).split("must be at most ")[1].split(",")[0])
    _, rules = settled(f"privacy.most_absent={most}", fixed)
    assert rules.quorum == (16 + 30 - rules.most_absent) // 2
    with pytest.raises(PrivacyError, match=r"^privacy\."):
        settled(f"privacy.most_absent={most + 1 / 30}", fixed)


def entries_apart(entries: Any, shape: tuple[int, int]) -> csr_array:
    """Make a sparse matrix as SciPy 1.13.0 does: repeated entries of a place stay apart."""
    values, (own, other) = entries
    order = np.argsort(own, kind="stable")
    starts = np.concatenate([[0], np.bincount(own, minlength=shape[0]).cumsum()])
    return csr_array((values[order], other[order], starts), shape=shape)


@pytest.mark.parametrize("apart", [False, True])
def test_masks_of_two_seats_count_together_whatever_scipy_makes_of_them(
    apart: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if apart:
        monkeypatch.setattr("scipy.sparse.csr_array", entries_apart)
    graph = draw_graph(100, 8, 5)
    shared = [Counter(others) for others in graph.neighbours.values()]
    assert max(map(len, shared)) > min(map(len, shared))  # some share several masks
    assert graph.adjacency.nnz == sum(map(len, shared))
    assert graph.most_repeated == max(sum(n * n for n in each.values()) for each in shared) - 8
    for masks in (1, 5, 8):
        fewest = min(next(k for k in range(1, 9) if sum(n for _, n in each.most_common(k)) >= masks) for each in shared)
        assert graph.fewest_sharing(masks) == fewest
    assert fewest == 6  # of eight masks
