import math
from dataclasses import replace
from functools import reduce
from typing import Any

import dp_accounting
import mpmath
import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant, privacy_loss_distribution
from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution
from dp_accounting.rdp import RdpAccountant
from scipy.stats import norm
from slots_for_tests import gaussian_epsilon_with_many_digits

from airmixml.messages import PluginError, PrivacyError
from airmixml.privacy import GaussianSlots, certified_epsilon
from airmixml.registries import ACCOUNTANTS

HIDDEN = ("without-replacement", 64, 60_000)
WHOLE_ORDERS = tuple(map(float, range(2, 41)))


def slots(
    squared_shifts: tuple[float, ...],
    counts: tuple[int, ...],
    sampling: tuple[str, int, int] = ("none", 1, 1),
    adjacency: str = "replace-one",
) -> GaussianSlots:
    return GaussianSlots(
        squared_shifts=squared_shifts,
        counts=counts,
        adjacency=adjacency,
        sampling=sampling[0],
        sampled=sampling[1],
        population=sampling[2],
    )


def even_moment(squared_shift: mpmath.mpf, order: int) -> mpmath.mpf:
    return sum(
        (-1) ** i * mpmath.binomial(order, i) * mpmath.exp(i * (i - 1) * squared_shift / 2) for i in range(order + 1)
    )


def theorem_9(squared_shift: float, rate: float, order: int) -> mpmath.mpf:
    """Wang, Balle and Kasiviswanathan 2019, Thm. 9, for a Gaussian mechanism: Renyi loss of one sampled slot."""
    s, r = mpmath.mpf(squared_shift), mpmath.mpf(rate)
    inside = 1 + r**2 * mpmath.binomial(order, 2) * min(4 * (mpmath.exp(s) - 1), 2 * mpmath.exp(s))
    for j in range(3, order + 1):
        between = mpmath.sqrt(even_moment(s, 2 * (j // 2)) * even_moment(s, 2 * -(-j // 2)))
        inside += 4 * r**j * mpmath.binomial(order, j) * between
    return mpmath.log(inside) / (order - 1)


def proposition_1(mechanism: GaussianSlots, delta: float, orders: range) -> tuple[mpmath.mpf, int]:
    with mpmath.workdps(200):
        rate = mpmath.mpf(mechanism.sampled) / mechanism.population
        return min(
            (
                sum(
                    count * theorem_9(squared_shift, rate, order)
                    for squared_shift, count in zip(mechanism.squared_shifts, mechanism.counts, strict=True)
                )
                + mpmath.log(1 / mpmath.mpf(delta)) / (order - 1),
                order,
            )
            for order in orders
        )


@pytest.mark.parametrize("delta", [1e-30, 1e-5, 0.3])
def test_paper_loose_adds_corollary_1_over_slots_of_many_kinds(delta: float) -> None:
    squared_shifts, counts = (1e-9, 0.3, math.log(2), 5.0, 1e4, 1e6), (10**6, 100, 30, 3, 2, 1)
    with mpmath.workdps(60):
        rate = mpmath.mpf(64) / 60_000
        terms = [
            count * mpmath.log(1 + rate**2 * min(4 * (mpmath.exp(s) - 1), 2 * mpmath.exp(s)))
            for s, count in zip(map(mpmath.mpf, squared_shifts), counts, strict=True)
        ]
        expected = float(sum(terms) - mpmath.log(mpmath.mpf(delta)))
    assert certified_epsilon("paper-loose", slots(squared_shifts, counts, HIDDEN), delta) == pytest.approx(
        expected, rel=1e-12, abs=0
    )


def test_paper_loose_takes_no_credit_where_the_schedule_is_known() -> None:
    """2 x 0.5 + 3 x 4 + ln 100."""
    mechanism = slots((0.5, 4.0), (2, 3))
    assert certified_epsilon("paper-loose", mechanism, 0.01) == pytest.approx(13.0 + math.log(100.0), rel=1e-14)


@pytest.mark.parametrize(
    ("squared_shifts", "counts", "sampling", "delta"),
    [
        ((4.0, 1.0, 0.05), (10, 100, 10_000), ("without-replacement", 1, 100), 1e-6),
        ((8.0, 0.5, 1e-9), (3, 40, 10**6), ("without-replacement", 3, 1000), 1e-4),
        ((0.6,), (2000,), ("without-replacement", 1, 2), 0.1),
    ],
)
def test_paper_tight_adds_theorem_9_over_slots_of_several_kinds(
    squared_shifts: tuple[float, ...], counts: tuple[int, ...], sampling: tuple[str, int, int], delta: float
) -> None:
    mechanism = slots(squared_shifts, counts, sampling)
    expected, order = proposition_1(mechanism, delta, range(2, 19))
    assert order < 18
    assert certified_epsilon("paper-tight", mechanism, delta) == pytest.approx(float(expected), rel=1e-8, abs=0)


def test_paper_tight_with_more_kinds_than_it_tells_apart_stays_just_above_theorem_9() -> None:
    rng = np.random.default_rng(3)
    squared_shifts = tuple(float(value) for value in rng.uniform(0.5, 3.0, 20))
    mechanism = slots(squared_shifts, (10,) * 20, ("without-replacement", 1, 100))
    exact, order = proposition_1(mechanism, 1e-3, range(2, 9))
    assert 2 < order < 6
    assert float(exact) * (1 - 1e-12) <= certified_epsilon("paper-tight", mechanism, 1e-3) <= 1.3 * float(exact)


@pytest.mark.parametrize("order", [2, 7, 100])
def test_paper_tight_with_a_known_schedule_attains_its_least_over_all_real_orders(order: int) -> None:
    """mu^2/2 + mu sqrt(2 ln(1/delta)) is attained at order 1 + sqrt(2 ln(1/delta)) / mu, here a whole one."""
    delta = 1e-5
    root = math.sqrt(2.0 * math.log(1.0 / delta))
    mu = root / (order - 1)
    mechanism = slots((mu**2 / 8.0, mu**2 / 4.0), (2, 3))
    assert certified_epsilon("paper-tight", mechanism, delta) == pytest.approx(mu**2 / 2.0 + mu * root, rel=1e-12)


RENYI_CASES = [
    ((1.0, 0.3), (500, 2000), 1, 50, 1e-5),
    ((3.0, 1.0, 0.2), (20, 50, 1000), 5, 400, 1e-4),
    ((0.05,), (3000,), 1, 10, 1e-6),
]


def norms_apart() -> float:
    """How far apart replaced records of norm C are to the library, in C: 2, or 1 in versions that overlook it.

    A Gaussian mechanism that is not sampled tells: it is that of add-or-remove neighbours so far apart.
    """
    relation = dp_accounting.NeighboringRelation

    def epsilon(neighbours: Any, multiplier: float) -> float:
        accountant = RdpAccountant(WHOLE_ORDERS, neighbours).compose(dp_accounting.GaussianDpEvent(multiplier))
        return float(accountant.get_epsilon(1e-5))

    replaced = epsilon(relation.REPLACE_ONE, 4.0)
    found = [apart for apart in (1.0, 2.0) if epsilon(relation.ADD_OR_REMOVE_ONE, 4.0 / apart) == replaced]
    assert len(found) == 1
    return found[0]


@pytest.mark.parametrize(("squared_shifts", "counts", "sampled", "population", "delta"), RENYI_CASES)
@pytest.mark.parametrize("sampling", ["without-replacement", "poisson"])
def test_rdp_is_what_the_library_gives_when_asked_directly(
    squared_shifts: tuple[float, ...],
    counts: tuple[int, ...],
    sampled: int,
    population: int,
    delta: float,
    sampling: str,
) -> None:
    fixed = sampling == "without-replacement"
    relation = dp_accounting.NeighboringRelation
    direct = RdpAccountant(WHOLE_ORDERS, relation.REPLACE_ONE if fixed else relation.ADD_OR_REMOVE_ONE)
    for squared_shift, count in zip(squared_shifts, counts, strict=True):
        # A multiplier is of the norm of a record; ours are of the distance of two.
        gaussian = dp_accounting.GaussianDpEvent((norms_apart() if fixed else 1.0) * squared_shift**-0.5)
        direct.compose(
            dp_accounting.SampledWithoutReplacementDpEvent(population, sampled, gaussian)
            if fixed
            else dp_accounting.PoissonSampledDpEvent(sampled / population, gaussian),
            count,
        )
    expected, order = direct.get_epsilon_and_optimal_order(delta)
    assert 2 < order <= 32
    mechanism = slots(
        squared_shifts, counts, (sampling, sampled, population), adjacency="replace-one" if fixed else "remove-one"
    )
    assert certified_epsilon("rdp", mechanism, delta) == pytest.approx(expected, rel=1e-9, abs=0)


@pytest.mark.parametrize("adjacency", ["replace-one", "remove-one"])
def test_rdp_with_a_known_schedule_against_the_conversion_by_hand(adjacency: str) -> None:
    """Order g of a Gaussian mechanism is g mu^2 / 2; Canonne, Kamath and Steinke 2020, Prop. 12, gives its epsilon."""
    delta, total = 1e-6, 2 * 0.04 + 5 * 0.02
    expected = min(
        order * total / 2 + math.log1p(-1 / order) - math.log(delta * order) / (order - 1) for order in range(2, 33)
    )
    mechanism = slots((0.04, 0.02), (2, 5), adjacency=adjacency)
    assert certified_epsilon("rdp", mechanism, delta) == pytest.approx(expected, rel=1e-9, abs=0)


PLD_CASES = [
    pytest.param((1.0,), (1000,), 64, 60_000, 1e-5, 1e-4, marks=pytest.mark.long),  # the library takes seconds
    ((0.1,), (1000,), 1, 20, 1e-5, 3e-5),
    ((3.0, 0.5), (100, 300), 1, 100, 1e-3, 1e-3),
    ((2.0,), (1,), 1, 10, 1e-4, 5e-4),
    ((4.0,), (100,), 1, 50, 1e-7, 1e-3),
]


@pytest.mark.parametrize(("squared_shifts", "counts", "sampled", "population", "delta", "interval"), PLD_CASES)
def test_pld_of_poisson_sampling_is_close_to_the_library_s_own_accountant_and_never_below_its_lower_estimate(
    squared_shifts: tuple[float, ...],
    counts: tuple[int, ...],
    sampled: int,
    population: int,
    delta: float,
    interval: float,
) -> None:
    rate = sampled / population
    upper = PLDAccountant(dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE, value_discretization_interval=interval)
    singles = []
    for squared_shift, count in zip(squared_shifts, counts, strict=True):
        gaussian = dp_accounting.GaussianDpEvent(squared_shift**-0.5)
        upper.compose(dp_accounting.PoissonSampledDpEvent(rate, gaussian), count)
        single = privacy_loss_distribution.from_gaussian_mechanism(
            squared_shift**-0.5,
            pessimistic_estimate=False,
            value_discretization_interval=interval,
            sampling_prob=rate,
            use_connect_dots=False,
        )
        singles.append(single.self_compose(count))
    lower = reduce(PrivacyLossDistribution.compose, singles).get_epsilon_for_delta(delta)
    mechanism = slots(squared_shifts, counts, ("poisson", sampled, population), adjacency="remove-one")
    epsilon = certified_epsilon("pld", mechanism, delta)
    assert epsilon == pytest.approx(upper.get_epsilon(delta), rel=1e-3, abs=0)
    assert 0.5 * epsilon < lower <= epsilon


@pytest.mark.parametrize(
    ("squared_shifts", "counts", "delta"),
    [
        ((1e-9,), (1,), 1e-9),
        ((0.04, 0.25), (7, 3), 1e-5),
        ((1.0,), (1,), 1e-5),
        ((2.0,), (100,), 1e-12),
        ((1e6,), (10**6,), 1e-30),
        ((1e-3,), (9,), 0.01),
    ],
)
@pytest.mark.parametrize("accountant", ["gdp", "pld"])
def test_a_known_schedule_is_accounted_for_exactly(
    accountant: str, squared_shifts: tuple[float, ...], counts: tuple[int, ...], delta: float
) -> None:
    total = math.fsum(squared_shift * count for squared_shift, count in zip(squared_shifts, counts, strict=True))
    expected = gaussian_epsilon_with_many_digits(total, delta)
    epsilon = certified_epsilon(accountant, slots(squared_shifts, counts, adjacency="remove-one"), delta)
    assert epsilon >= expected
    assert epsilon == pytest.approx(float(expected), rel=1e-7, abs=2e-12)


@pytest.mark.parametrize("adjacency", ["replace-one", "remove-one"])
@pytest.mark.parametrize(
    ("squared_shift", "count", "delta"), [(1e-8, 100, 1e-7), (1e-3, 1000, 1e-5), (1.0, 10, 1e-10), (100.0, 3, 1e-5)]
)
def test_pld_of_a_sample_of_everybody_is_the_gaussian_mechanism_from_above(
    squared_shift: float, count: int, delta: float, adjacency: str
) -> None:
    mechanism = slots((squared_shift,), (count,), ("without-replacement", 3, 3), adjacency=adjacency)
    expected = float(gaussian_epsilon_with_many_digits(squared_shift * count, delta))
    epsilon = certified_epsilon("pld", mechanism, delta)
    assert expected * (1 - 1e-9) <= epsilon <= expected * (1 + 3e-4)


@pytest.mark.parametrize("accountant", ACCOUNTANTS.names)
@pytest.mark.parametrize(("squared_shifts", "counts"), [((0.0,), (100,)), ((5.0,), (0,))])
def test_who_sends_nothing_loses_nothing_beyond_what_the_bound_cannot_see(
    accountant: str, squared_shifts: tuple[float, ...], counts: tuple[int, ...]
) -> None:
    """Order 512, the largest of paper-tight, leaves ln(1/delta) / 511; order 2 of paper-loose all of ln(1/delta)."""
    left = {"paper-loose": math.log(1e5), "paper-tight": math.log(1e5) / 511}.get(accountant, 0.0)
    assert certified_epsilon(accountant, slots(squared_shifts, counts), 1e-5) == pytest.approx(left, rel=1e-12, abs=0)


@pytest.mark.parametrize(
    ("accountant", "sampling", "adjacency", "reason"),
    [
        ("paper-loose", "poisson", "remove-one", "theorem samples without replacement; use pld or rdp"),
        ("paper-tight", "poisson", "remove-one", "theorem samples without replacement; use pld or rdp"),
        ("gdp", "poisson", "remove-one", "only where the schedule is known; use pld"),
        ("gdp", "without-replacement", "replace-one", "only where the schedule is known; use pld"),
        ("gdp", "without-replacement", "remove-one", "only where the schedule is known; use pld"),
        ("rdp", "without-replacement", "remove-one", "for replace-one neighbours; use pld"),
    ],
)
def test_what_an_accountant_cannot_treat_it_refuses_and_says_why(
    accountant: str, sampling: str, adjacency: str, reason: str
) -> None:
    mechanism = slots((1.0,), (10,), (sampling, 1, 5), adjacency)
    said = (
        f"privacy.accountant = '{accountant}': cannot treat sampling {sampling} with {adjacency} neighbours: .*{reason}"
    )
    with pytest.raises(PrivacyError, match=said):
        certified_epsilon(accountant, mechanism, 1e-3)


@pytest.mark.parametrize("accountant", ["paper-loose", "paper-tight", "rdp", "pld"])
def test_coins_and_replaced_samples_are_covered_by_the_bound_for_a_draw(accountant: str) -> None:
    coins, drawn = (
        slots((0.7,), (200,), (sampling, 3, 100), adjacency="replace-one")
        for sampling in ("poisson", "without-replacement")
    )
    assert certified_epsilon(accountant, coins, 1e-5) == certified_epsilon(accountant, drawn, 1e-5)


@pytest.mark.parametrize(("rate", "mu"), [(0.1, 1.0), (0.3, 0.5), (0.02, 2.0)])
def test_a_replacement_under_coins_is_never_worse_than_the_bounds_say(rate: float, mu: float) -> None:
    """One slot, the worst pair of samples known, x and -x: the hockey stick by integration, at the stated epsilon."""
    delta, grid = 1e-4, np.linspace(-14.0, 14.0, 200_001)
    density = [(1 - rate) * norm.pdf(grid) + rate * norm.pdf(grid, loc) for loc in (mu, -mu)]
    removal, replacement = (
        slots((squared_move,), (1,), ("poisson", round(1000 * rate), 1000), adjacency=adjacency)
        for squared_move, adjacency in ((mu**2, "remove-one"), (4 * mu**2, "replace-one"))
    )
    for mechanism in (replace(removal, steps=2), replacement):
        epsilon = certified_epsilon("pld", mechanism, delta)
        excess = np.maximum(density[0] - math.exp(epsilon) * density[1], 0.0)
        assert np.trapezoid(excess, grid) <= delta
    two_steps = certified_epsilon("pld", replace(removal, steps=2), delta)
    assert two_steps > 2.0 * certified_epsilon("pld", removal, delta) * (1 - 1e-9)


def test_an_unknown_accountant_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(PluginError, match=r"must be one of paper-loose, .* did you mean paper-tight\?"):
        certified_epsilon("paper-tigth", slots((1.0,), (1,)), 1e-3)


@pytest.mark.parametrize("delta", [-0.1, 0.0, 1.0, 3.0, math.nan])
@pytest.mark.parametrize("accountant", ACCOUNTANTS.names)
def test_a_delta_that_is_no_probability_is_refused(accountant: str, delta: float) -> None:
    with pytest.raises(PrivacyError, match=r"privacy\.delta = .* between 0 and 1"):
        certified_epsilon(accountant, slots((1.0,), (1,)), delta)


@pytest.mark.parametrize(
    "wrong",
    [
        {"squared_shifts": (math.inf,)},
        {"squared_shifts": (math.nan,)},
        {"squared_shifts": (-1.0,)},
        {"squared_shifts": (1.0, 2.0)},
        {"squared_shifts": (), "counts": ()},
        {"counts": (-1,)},
        {"sampled": 0},
        {"sampled": 6},
        {"adjacency": "replace"},
        {"sampling": "with-replacement"},
    ],
)
def test_slots_that_cannot_be_are_refused(wrong: dict[str, object]) -> None:
    right: dict[str, object] = {
        "squared_shifts": (1.0,),
        "counts": (3,),
        "adjacency": "replace-one",
        "sampling": "without-replacement",
        "sampled": 2,
        "population": 5,
    }
    GaussianSlots(**right)  # type: ignore[arg-type]
    with pytest.raises(PrivacyError, match="must be"):
        GaussianSlots(**(right | wrong))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("squared_shifts", "counts", "sampled", "population", "delta"),
    [
        ((1.0,), (1000,), 64, 60_000, 1e-5),
        ((0.2, 2.0), (300, 50), 1, 20, 1e-4),
        ((0.01,), (500,), 1, 4, 1e-3),
        ((5.0,), (20,), 2, 100, 1e-6),
        ((30.0,), (5,), 1, 10, 1e-3),
    ],
)
def test_each_accountant_is_at_least_as_tight_as_the_next(
    squared_shifts: tuple[float, ...], counts: tuple[int, ...], sampled: int, population: int, delta: float
) -> None:
    mechanism = slots(squared_shifts, counts, ("without-replacement", sampled, population))
    pld, rdp, tight, loose = (
        certified_epsilon(name, mechanism, delta) for name in ("pld", "rdp", "paper-tight", "paper-loose")
    )
    assert 0.0 < pld < rdp <= 1.01 * tight
    assert tight <= loose * (1 + 1e-12)


@pytest.mark.parametrize("target", [1e-3, 1.0, 1e4, 1e8])
def test_gdp_of_a_total_that_was_solved_for_gives_back_the_epsilon(target: float) -> None:
    with mpmath.workdps(60):
        root = mpmath.sqrt(2 * mpmath.log(1e9))
        mu = float(mpmath.sqrt(root**2 + 2 * mpmath.mpf(target)) - root)
    expected = float(gaussian_epsilon_with_many_digits(mu**2, 1e-9))
    assert expected < target
    assert certified_epsilon("gdp", slots((mu**2,), (1,)), 1e-9) == pytest.approx(expected, rel=1e-9, abs=2e-12)
