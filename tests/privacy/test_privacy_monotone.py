from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from slots_for_tests import hidden, stronger, worse_versions

from airmixml.privacy import (
    Adversary,
    Design,
    Eavesdropper,
    GaussianSlots,
    Release,
    Sensitivity,
    Server,
    certified_epsilon,
    facts,
    state_privacy,
)


def assert_grows(accountant: str, mechanism: GaussianSlots, factor: float, delta: float) -> None:
    base = certified_epsilon(accountant, mechanism, delta)
    for name, worse in worse_versions(mechanism, factor).items():
        assert certified_epsilon(accountant, worse, delta) >= base * (1 - 1e-12), name
    assert certified_epsilon(accountant, mechanism, delta / factor) >= base * (1 - 1e-12)
    if base > 0.0:
        assert certified_epsilon(accountant, stronger(mechanism, 2.0), delta) > base
        assert certified_epsilon(accountant, mechanism, delta / 4.0) > base


some_kinds = st.lists(
    st.tuples(st.floats(-3, 2).map(lambda log: 10.0**log), st.integers(1, 300)), min_size=1, max_size=3
)
some_slots = st.builds(
    lambda kinds, sampled, population: hidden(
        tuple(s for s, _ in kinds), tuple(count for _, count in kinds), sampled, population
    ),
    some_kinds,
    st.integers(1, 8),
    st.integers(8, 2000),
)
factors = st.floats(1.01, 3.0)
deltas = st.floats(-9, -1).map(lambda log: 10.0**log)


@given(mechanism=some_slots, factor=factors, delta=deltas)
@settings(max_examples=150, deadline=None)
def test_paper_loose_grows_with_all_that_tells_more(mechanism: GaussianSlots, factor: float, delta: float) -> None:
    assert_grows("paper-loose", mechanism, factor, delta)


@given(kinds=some_kinds, factor=factors, delta=deltas, accountant=st.sampled_from(["gdp", "rdp", "paper-tight"]))
@settings(max_examples=60, deadline=None)
def test_what_is_known_to_have_been_sent_tells_more_the_more_it_is(
    kinds: list[tuple[float, int]], factor: float, delta: float, accountant: str
) -> None:
    mechanism = GaussianSlots(
        squared_shifts=tuple(s for s, _ in kinds), counts=tuple(count for _, count in kinds), adjacency="remove-one"
    )
    base = certified_epsilon(accountant, mechanism, delta)
    for name in ("more power", "more slots", "one kind more"):
        assert certified_epsilon(accountant, worse_versions(mechanism, factor)[name], delta) > base, name
    assert certified_epsilon(accountant, mechanism, delta / factor) > base


@pytest.mark.parametrize("accountant", ["rdp", "paper-tight"])
@pytest.mark.parametrize(
    ("squared_shifts", "counts", "sampled", "population", "delta", "factor"),
    [
        ((1.0,), (100,), 2, 100, 1e-5, 1.02),
        pytest.param((0.3, 2.0), (200, 30), 1, 10, 1e-3, 2.0, marks=pytest.mark.long),
    ],
)
def test_the_renyi_bounds_grow_with_all_that_tells_more(
    accountant: str,
    squared_shifts: tuple[float, ...],
    counts: tuple[int, ...],
    sampled: int,
    population: int,
    delta: float,
    factor: float,
) -> None:
    assert_grows(accountant, hidden(squared_shifts, counts, sampled, population), factor, delta)


@given(
    squared_shifts=st.lists(st.floats(-8, 3).map(lambda log: 10.0**log) | st.just(0.0), min_size=1, max_size=40),
    counts=st.lists(st.integers(0, 6), min_size=40, max_size=40),
    most=st.integers(2, 12),
)
@settings(max_examples=150, deadline=None)
def test_coarsening_keeps_every_slot_and_makes_none_of_them_weaker(
    squared_shifts: list[float], counts: list[int], most: int
) -> None:
    counts = counts[: len(squared_shifts)]
    assume(sum(counts) > 0)
    fine = hidden(tuple(squared_shifts), tuple(counts), 1, 10)
    coarse = fine.coarsened(most)
    before, after = (np.sort(np.repeat(slots.squared_shifts, slots.counts)) for slots in (fine, coarse))
    assert len(after) == len(before)
    assert np.all(after >= before)
    assert after[-1] == before[-1]
    used = [s for s, count in zip(coarse.squared_shifts, coarse.counts, strict=True) if count]
    assert len(used) <= most
    assert certified_epsilon("paper-loose", coarse, 1e-3) >= certified_epsilon("paper-loose", fine, 1e-3) * (1 - 1e-12)


DESIGN = Design(
    workers=200,
    scheduled=4,
    received_watts=(0.5, 2.0),
    counts=(60, 20),
    sensitivity=Sensitivity(removal=1.0, replacement=1.5),
    noise_watts=4.0,
    facts=(facts.Transmitters(weakest_gain=0.5),),
)
NEAR = Eavesdropper(gain=0.3, own_noise_watts=3.0)


def louder(adversary: Adversary, factor: float) -> Adversary:
    if isinstance(adversary, Eavesdropper) and adversary.gain is not None:
        return replace(adversary, gain=factor * adversary.gain)
    return adversary


def quieter_noise(design: Design, adversary: Adversary, factor: float) -> tuple[Design, Adversary]:
    if isinstance(adversary, Eavesdropper):
        return design, replace(adversary, own_noise_watts=adversary.own_noise_watts / factor)
    return replace(design, noise_watts=design.noise_watts / factor), adversary


@given(
    adversary=st.sampled_from([Release(), Server(), NEAR]),
    adjacency=st.sampled_from(["replace-one", "remove-one"]),
    limit=st.sampled_from([0, 0, 20, 80]),
    factor=st.floats(1.05, 4.0),
)
@settings(max_examples=80, deadline=None)
def test_paper_loose_grows_with_what_helps_an_adversary(
    adversary: Adversary, adjacency: str, limit: int, factor: float
) -> None:
    def epsilon(design: Design, who: Adversary) -> float:
        return state_privacy(design, who, "paper-loose", adjacency=adjacency, delta=1e-4).epsilon

    design = replace(DESIGN, max_participations=limit)
    base = epsilon(design, adversary)
    wider = Sensitivity(removal=factor * 1.0, replacement=factor * 1.5)
    assert epsilon(design.scaled(factor), adversary) > base
    assert epsilon(replace(design, sensitivity=wider), adversary) > base
    assert epsilon(*quieter_noise(design, adversary, factor)) > base
    helped = epsilon(design, replace(adversary, colluders=int(40 * factor)))
    assert helped == base if isinstance(adversary, Server) else helped >= base
    if isinstance(adversary, Eavesdropper):
        assert epsilon(design, louder(adversary, factor)) > base
        assert epsilon(design.stating(facts.Transmitters(weakest_gain=0.5 / factor)), adversary) > base
        assert epsilon(design.stating(facts.Transmitters(weakest_gain=0.5, limit_watts=0.3)), adversary) < base
