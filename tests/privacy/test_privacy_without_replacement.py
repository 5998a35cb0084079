"""Small worlds in which every subset of the workers can be listed, integrated, and held against what is certified.

Each worker holds a number in [0, 1], so nobody moves a slot by more than 1, and the noise has variance 1 / s.
"""

import itertools
import math
from collections import Counter
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from airmixml.privacy import Design, GaussianSlots, Release, Sensitivity, certified_epsilon, state_privacy
from airmixml.privacy.loss_distribution import LossDistribution, compose, slot_losses

Array = NDArray[np.float64]
LOG_ORDERS = np.linspace(-5.0, 5.0, 21)


@dataclass(frozen=True)
class World:
    """Neighbours that differ in the first worker; ``others`` are the rest, ``shares`` those of the seats of a slot."""

    others: tuple[float, ...]
    sampled: int
    before: float = 1.0
    after: float = 0.0
    shares: tuple[float, ...] = ()

    @property
    def rate(self) -> float:
        return self.sampled / (len(self.others) + 1)

    def swapped(self) -> "World":
        return World(self.others, self.sampled, self.after, self.before, self.shares)


WORLDS = {
    "all others hold 0": World((0.0, 0.0, 0.0), 1),
    "all others hold 1": World((1.0, 1.0, 1.0, 1.0), 2),
    "others are mixed": World((0.0, 1.0, 1.0, 0.0, 1.0), 3),
    "others are spread": World((0.0, 0.3, 0.5, 0.9), 2),
    "a move by half": World((0.0, 1.0, 1.0), 2, 0.75, 0.25),
    "everybody but one sends": World((1.0, 0.0, 0.0, 0.0), 4),
    "shares differ": World((0.0, 1.0, 0.2), 2, shares=(1.0, 0.4)),
}
both_directions = pytest.mark.parametrize("swap", [False, True], ids=["forth", "back"])
in_every_world = pytest.mark.parametrize("world", WORLDS.values(), ids=list(WORLDS))


def sums(values: tuple[float, ...], sampled: int, shares: tuple[float, ...]) -> dict[float, float]:
    """What a slot may add up to without noise, and with which probability: all ways to fill its seats."""
    seats = shares or (1.0,) * sampled
    drawn = itertools.permutations(values, sampled) if shares else itertools.combinations(values, sampled)
    counts = Counter(round(math.fsum(q * x for q, x in zip(seats, who, strict=True)), 12) for who in drawn)
    return {total: count / counts.total() for total, count in counts.items()}


def density(points: Array, centres: dict[float, float], squared_shift: float) -> Array:
    scale = math.sqrt(squared_shift / (2.0 * math.pi))
    return sum(
        weight * scale * np.exp(-squared_shift * (points - centre) ** 2 / 2.0) for centre, weight in centres.items()
    ) + np.zeros_like(points)


def grid(sampled: int, squared_shift: float, size: int) -> tuple[Array, float]:
    reach = 8.0 / math.sqrt(squared_shift)
    points = np.linspace(-reach, sampled + reach, size)
    return points, float(points[1] - points[0])


def neighbours(world: World, squared_shift: float, size: int) -> tuple[Array, Array, float]:
    """The densities of one slot on a grid, with the first worker's number before and after, and the grid's step."""
    points, step = grid(world.sampled, squared_shift, size)
    with_before, with_after = (
        density(points, sums((value, *world.others), world.sampled, world.shares), squared_shift)
        for value in (world.before, world.after)
    )
    return with_before, with_after, step


def hockey_stick(first: Array, second: Array, cell: float, log_order: float) -> float:
    return float(np.maximum(first - math.exp(log_order) * second, 0.0).sum() * cell)


def losses_of(world: World, squared_shift: float) -> LossDistribution:
    (losses,) = slot_losses("replace-one", squared_shift, world.rate, 2e-3)
    return losses


@in_every_world
@both_directions
@pytest.mark.parametrize("squared_shift", [0.05, 1.0, 9.0])
def test_no_world_is_further_apart_in_one_slot_than_its_loss_distribution_says(
    world: World, swap: bool, squared_shift: float
) -> None:
    first, second, cell = neighbours(world.swapped() if swap else world, squared_shift, 10_001)
    losses = losses_of(world, squared_shift)
    for log_order in (math.sqrt(squared_shift) * LOG_ORDERS).tolist():
        assert hockey_stick(first, second, cell, log_order) <= losses.delta(log_order) + 3e-7


@both_directions
@pytest.mark.parametrize("squared_shift", [0.05, 1.0, 9.0])
@pytest.mark.parametrize(("workers", "sampled"), [(4, 1), (5, 2), (6, 3)])
def test_where_all_others_hold_0_the_loss_distribution_is_attained(
    swap: bool, squared_shift: float, workers: int, sampled: int
) -> None:
    """Forth at orders from 1 on, back at orders below; what is bounded below order 1 is the excess over 1 - order."""
    world = World((0.0,) * (workers - 1), sampled)
    first, second, cell = neighbours(world.swapped() if swap else world, squared_shift, 10_001)
    losses = losses_of(world, squared_shift)
    checked = 0
    orders = math.sqrt(squared_shift) * LOG_ORDERS
    for log_order in orders[(orders <= 0.0) if swap else (orders >= 0.0)].tolist():
        certain = max(0.0, -math.expm1(log_order))
        bound = losses.delta(log_order) - certain
        if bound > 1e-6:
            checked += 1
            assert hockey_stick(first, second, cell, log_order) - certain >= 0.9 * bound
    assert checked >= 2


def test_the_loss_distribution_of_one_slot_by_hand() -> None:
    """r = 1/4, mu = 2, e^x = 2: r H(5) with H(5) = Phi(1 - ln 5 / 2) - 5 Phi(-1 - ln 5 / 2) = 0.4013627."""

    def normal(x: float) -> float:
        return math.erfc(-x / math.sqrt(2.0)) / 2.0

    by_hand = (normal(1.0 - math.log(5.0) / 2.0) - 5.0 * normal(-1.0 - math.log(5.0) / 2.0)) / 4.0
    (losses,) = slot_losses("replace-one", 4.0, 0.25, math.log(2.0) / 500.0)
    assert losses.delta(math.log(2.0)) == pytest.approx(by_hand, rel=1e-6, abs=0)
    assert losses.delta(-math.log(2.0)) == pytest.approx(0.5 + 0.5 * by_hand, rel=1e-6, abs=0)


TWO_SLOTS = [
    ("all others hold 0", False, "all others hold 0", False),
    ("all others hold 0", True, "all others hold 0", True),
    ("all others hold 0", False, "all others hold 0", True),
    ("all others hold 1", False, "all others hold 1", True),
    ("others are mixed", False, "others are mixed", False),
    ("others are spread", True, "others are spread", True),
    ("shares differ", False, "shares differ", True),
    ("everybody but one sends", False, "all others hold 0", True),
]


def in_two_slots(
    worlds: tuple[World, World], squared_shifts: tuple[float, float], size: int = 601
) -> tuple[Array, Array, float]:
    (first, second, step), (other_first, other_second, other_step) = (
        neighbours(world, squared_shift, size) for world, squared_shift in zip(worlds, squared_shifts, strict=True)
    )
    return np.outer(first, other_first), np.outer(second, other_second), step * other_step


@pytest.mark.parametrize(("name", "swap", "other_name", "other_swap"), TWO_SLOTS)
@pytest.mark.parametrize("squared_shifts", [(1.0, 1.0), (4.0, 0.2)])
def test_no_two_slots_are_further_apart_than_their_composed_loss_distribution_says(
    name: str, swap: bool, other_name: str, other_swap: bool, squared_shifts: tuple[float, float]
) -> None:
    plain = (WORLDS[name], WORLDS[other_name])
    worlds = tuple(world.swapped() if turn else world for world, turn in zip(plain, (swap, other_swap), strict=True))
    first, second, cell = in_two_slots((worlds[0], worlds[1]), squared_shifts)
    composed = compose([(losses_of(world, s), 1) for world, s in zip(worlds, squared_shifts, strict=True)])
    for log_order in LOG_ORDERS[::2].tolist():
        true = hockey_stick(first, second, cell, log_order)
        assert true <= composed.delta(log_order) + 1e-6


@pytest.mark.parametrize("squared_shift", [0.3, 2.0])
def test_two_slots_attain_most_of_what_is_certified(squared_shift: float) -> None:
    world = WORLDS["all others hold 0"]
    first, second, cell = in_two_slots((world, world), (squared_shift, squared_shift))
    composed = compose([(losses_of(world, squared_shift), 2)])
    for log_order in (0.0, 0.1, 0.3, 0.6):
        assert hockey_stick(first, second, cell, log_order) >= 0.8 * composed.delta(log_order) > 1e-4


def certified(world: World, squared_shift: float, slots: int, adjacency: str, delta: float) -> float:
    mechanism = GaussianSlots(
        squared_shifts=(squared_shift,),
        counts=(slots,),
        adjacency=adjacency,
        sampling="without-replacement",
        sampled=world.sampled,
        population=len(world.others) + 1,
    )
    return certified_epsilon("pld", mechanism, delta)


@in_every_world
@pytest.mark.parametrize(("squared_shift", "slots", "delta"), [(0.3, 1, 1e-3), (3.0, 2, 0.01)])
def test_a_replaced_worker_is_covered_by_the_certified_epsilon(
    world: World, squared_shift: float, slots: int, delta: float
) -> None:
    epsilon = certified(world, squared_shift, slots, "replace-one", delta)
    first, second, cell = (
        neighbours(world, squared_shift, 10_001)
        if slots == 1
        else in_two_slots((world, world), (squared_shift, squared_shift))
    )
    assert hockey_stick(first, second, cell, epsilon) <= delta + 1e-6
    assert hockey_stick(second, first, cell, epsilon) <= delta + 1e-6


def with_and_without(world: World, squared_shift: float, size: int) -> tuple[Array, Array, float]:
    """One slot with the first worker among those drawn from, and with it gone: somebody else takes its seat."""
    points, step = grid(world.sampled, squared_shift, size)
    there = density(points, sums((world.before, *world.others), world.sampled, world.shares), squared_shift)
    gone = density(points, sums(world.others, world.sampled, world.shares), squared_shift)
    return there, gone, step


@in_every_world
@pytest.mark.parametrize(("squared_shift", "slots", "delta"), [(1.0, 1, 1e-3), (3.0, 2, 0.01)])
def test_a_worker_that_is_gone_is_covered_by_the_certified_epsilon(
    world: World, squared_shift: float, slots: int, delta: float
) -> None:
    epsilon = certified(world, squared_shift, slots, "remove-one", delta)
    there, gone, cell = with_and_without(world, squared_shift, 10_001 if slots == 1 else 601)
    if slots == 2:
        there, gone, cell = np.outer(there, there), np.outer(gone, gone), cell**2
    assert hockey_stick(there, gone, cell, epsilon) <= delta + 1e-6
    assert hockey_stick(gone, there, cell, epsilon) <= delta + 1e-6


@pytest.mark.parametrize(("slots", "attained"), [(1, 0.99), (2, 0.99)])
def test_a_worker_that_is_gone_attains_the_certified_epsilon_where_all_others_hold_0(
    slots: int, attained: float
) -> None:
    world, squared_shift, delta = WORLDS["all others hold 0"], 2.0, 0.01
    epsilon = certified(world, squared_shift, slots, "remove-one", delta)
    there, gone, cell = with_and_without(world, squared_shift, 10_001 if slots == 1 else 1201)
    if slots == 2:
        there, gone, cell = np.outer(there, there), np.outer(gone, gone), cell**2
    assert hockey_stick(there, gone, cell, epsilon) >= attained * delta


def round_of_two_slots(values: tuple[float, ...], squared_shift: float, size: int) -> tuple[Array, float]:
    """Two slots of one worker each, none of whom sends in both."""
    points, step = grid(1, squared_shift, size)
    single = {value: density(points, {value: 1.0}, squared_shift) for value in set(values)}
    pairs = list(itertools.permutations(values, 2))
    return sum(np.outer(single[a], single[b]) for a, b in pairs) / len(pairs), step**2


@pytest.mark.parametrize("others", [(0.0, 0.0, 0.0), (1.0, 1.0, 1.0), (0.0, 1.0, 0.5)])
@pytest.mark.parametrize("adjacency", ["replace-one", "remove-one"])
@pytest.mark.parametrize("squared_shift", [0.5, 4.0])
def test_a_round_in_which_nobody_sends_twice_is_covered_as_one_sample(
    others: tuple[float, ...], adjacency: str, squared_shift: float
) -> None:
    delta = 0.01
    design = Design(
        workers=4,
        scheduled=1,
        received_watts=(squared_shift,),
        counts=(2,),
        sensitivity=Sensitivity(removal=1.0, replacement=1.0),
        noise_watts=2.0,
        max_participations=1,
    )
    mechanism = Release().mechanism(design, adjacency)
    assert (mechanism.sampling, mechanism.sampling_rate, mechanism.slots) == ("without-replacement", 0.5, 1)
    epsilon = state_privacy(design, Release(), "pld", adjacency=adjacency, delta=delta).epsilon
    first, cell = round_of_two_slots((1.0, *others), squared_shift, 401)
    second, _ = round_of_two_slots((0.0, *others) if adjacency == "replace-one" else others, squared_shift, 401)
    assert hockey_stick(first, second, cell, epsilon) <= delta + 1e-6
    assert hockey_stick(second, first, cell, epsilon) <= delta + 1e-6
