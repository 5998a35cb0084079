"""Accounting, beside dp-accounting and Opacus on the same question: one query, a ledger of many workers, a calibration.

Every answer is computed anew, in turns with the other library's; the best of a few counts, in seconds of CPU time.
Imports are not timed. Opacus need not be installed; its rows then say so.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache, partial
from importlib.util import find_spec
from typing import Any, Final

import dp_accounting
import dp_accounting.pld
import dp_accounting.rdp
import numpy as np

from airmixml import Scenario
from airmixml.privacy import Design, GaussianSlots, Release, Server, calibrate_power, certified_epsilon
from airmixml.privacy.design import binomial_quantile
from airmixml.privacy.gaussian import gaussian_epsilons, gaussian_mu
from airmixml.radio.privacy_target import private_received_watts
from airmixml.radio.system import planned_design, sensitivity_of

NEVER_SLOWER: Final = {"faster": 1.0}
DIMENSIONS: Final = {"paper-iris": (4, 3), "paper-mnist": (784, 10)}
REMOVE, REPLACE = dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE, dp_accounting.NeighboringRelation.REPLACE_ONE
# Those of our accountant; the library's own default has more.
ORDERS: Final = (*(1.0 + x / 10.0 for x in range(1, 10)), *range(2, 33), 40, 48, 64, 96, 128, 256)
CALIBRATED_EPSILON: Final = 9.0
LEDGER_WORKERS, LEDGER_SEATS = 60_000, 6_400_000
TIMED_WORKERS: Final = 50
SHORTEST_SECONDS: Final = 0.02
# Ten times the library's own, so that its search ends within minutes.
COARSE_INTERVAL: Final = 1e-3

Row = dict[str, Any]
Query = Callable[[], float]


def rows(device: str = "cpu", quick: bool = False) -> Iterator[Row]:
    """Yield what ours and the others take, for all subjects; ``quick``: a hundredth of the slots."""
    for preset, dimensions in DIMENSIONS.items():
        yield from _queries(preset, _paper_design(preset, dimensions, quick))
    yield from _exact_queries()
    yield from _ledger(quick)
    yield from _calibrations(_paper_design("paper-mnist", DIMENSIONS["paper-mnist"], quick))


def _paper_design(preset: str, dimensions: tuple[int, int], quick: bool) -> Design:
    scenario = Scenario.preset(preset)
    if quick:
        scenario = scenario.with_overrides(f"radio.slots={scenario.radio.slots // 100}")
    sensitivity = sensitivity_of(scenario, *dimensions)
    return planned_design(scenario, sensitivity, received_watts=private_received_watts(scenario, sensitivity))


def _queries(preset: str, design: Design, delta: float = 0.01) -> Iterator[Row]:
    """Yield one query of each accountant against the release, for either way to draw the schedule."""
    drawn = Release().mechanism(design, "replace-one")
    coins = Release().mechanism(replace(design, sampling="poisson"), "remove-one")
    for accountant in ("paper-tight", "rdp"):
        yield _row(
            f"{preset}, {accountant}, fixed-size schedule",
            "dp-accounting, RDP",
            partial(_ours, accountant, drawn, delta),
            partial(_library_rdp, drawn, delta),
            same=accountant == "rdp",
        )
    yield _row(
        f"{preset}, rdp, Poisson schedule",
        "dp-accounting, RDP",
        partial(_ours, "rdp", coins, delta),
        partial(_library_rdp, coins, delta),
    )
    yield _row(
        f"{preset}, pld, Poisson schedule",
        "dp-accounting, PLD",
        partial(_ours, "pld", coins, delta),
        partial(_library_pld, coins, delta),
    )
    for accountant, name in (("rdp", "rdp"), ("pld", "prv")):
        work, against = f"{preset}, {accountant}, Poisson schedule", f"Opacus, {name.upper()}"
        if find_spec("opacus") is None:
            yield {"work": work, "against": against, "missing": "Opacus is not there"}
        else:
            theirs = partial(_opacus, name, coins, delta)
            yield _row(work, against, partial(_ours, accountant, coins, delta), theirs, same=False)


def _exact_queries() -> Iterator[Row]:
    """Yield the query of private-mnist: everybody sends in one slot, and the server knows it."""
    scenario = Scenario.preset("private-mnist")
    sensitivity = sensitivity_of(scenario, *DIMENSIONS["paper-mnist"])
    design = planned_design(scenario, sensitivity, received_watts=private_received_watts(scenario, sensitivity))
    known, delta = Server().mechanism(design, scenario.privacy.adjacency), scenario.privacy.delta
    yield _row(
        "private-mnist, gdp, known schedule",
        "dp-accounting, Gaussian",
        partial(_ours, "gdp", known, delta),
        lambda: float(dp_accounting.get_epsilon_gaussian(known.total**-0.5, delta)),
    )


def _ledger(quick: bool) -> Iterator[Row]:
    """Yield the epsilon of each of 60,000 workers from 100,000 slots of 64, beside the library's one by one."""
    workers, seats = (LEDGER_WORKERS // 10, LEDGER_SEATS // 100) if quick else (LEDGER_WORKERS, LEDGER_SEATS)
    rng, delta = np.random.default_rng(0), 0.01
    who, losses = rng.integers(workers, size=seats), rng.random(seats) / 50.0

    def totals() -> Any:
        return np.sqrt(np.bincount(who, losses, workers))

    def ours() -> float:
        return float(gaussian_epsilons(totals(), delta).max())

    some = np.sort(totals())[-TIMED_WORKERS:]

    def theirs() -> float:
        totals()
        return max(float(dp_accounting.get_epsilon_gaussian(1.0 / mu, delta)) for mu in some.tolist())

    work = f"ledger: epsilon of {workers:,} workers, {seats:,} seats"
    made = _row(work, "dp-accounting, each by itself", ours, theirs)
    adding = _Timed(lambda: float(totals().max()))
    adding.again()
    made["theirs_seconds"] = adding.best + (made["theirs_seconds"] - adding.best) * workers / len(some)
    yield made | {"ratio": made["theirs_seconds"] / made["ours_seconds"], "extrapolated": True}


def _calibrations(design: Design, delta: float = 0.01) -> Iterator[Row]:
    """Yield the noise multiplier that gives an epsilon of 9, by each library's own search."""
    coins = replace(design, sampling="poisson")
    rate, count = design.scheduled / design.workers, design.slots

    def ours(accountant: str, against: Release | Server) -> float:
        _forget()
        factor = calibrate_power(
            coins, against, accountant, adjacency="remove-one", epsilon=CALIBRATED_EPSILON, delta=delta
        )
        return coins.scaled(factor).noise_multiplier("remove-one")

    def library(fresh: Callable[[], Any]) -> float:
        def event(multiplier: float) -> Any:
            sampled = dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(multiplier))
            return dp_accounting.SelfComposedDpEvent(sampled, count)

        bracket = dp_accounting.LowerEndpointAndGuess(0.1, 1.0)
        return float(dp_accounting.calibrate_dp_mechanism(fresh, event, CALIBRATED_EPSILON, delta, bracket, tol=1e-4))

    yield _row(
        "calibration, rdp, Poisson schedule",
        "dp-accounting, RDP",
        partial(ours, "rdp", Release()),
        partial(library, partial(dp_accounting.rdp.RdpAccountant, ORDERS, REMOVE)),
        repeats=2,
    )
    yield _row(
        "calibration, pld, Poisson schedule",
        "dp-accounting, PLD",
        partial(ours, "pld", Release()),
        partial(library, partial(dp_accounting.pld.PLDAccountant, REMOVE, COARSE_INTERVAL)),
        repeats=1,
    )
    for accountant, name in (("rdp", "rdp"), ("pld", "prv")):
        work, against = f"calibration, {accountant}, Poisson schedule", f"Opacus, {name.upper()}"
        if find_spec("opacus") is None:
            yield {"work": work, "against": against, "missing": "Opacus is not there"}
        else:
            theirs = partial(_opacus_calibration, name, rate, count, delta)
            yield _row(work, against, partial(ours, accountant, Release()), theirs, same=False, repeats=1)
    multiplier = coins.participations**0.5
    yield _row(
        "calibration, gdp, known schedule",
        "dp-accounting, Gaussian",
        partial(ours, "gdp", Server()),
        lambda: multiplier * float(dp_accounting.get_sigma_gaussian(CALIBRATED_EPSILON, delta)),
    )


def _ours(accountant: str, mechanism: GaussianSlots, delta: float) -> float:
    _forget()
    return certified_epsilon(accountant, mechanism, delta)


def _forget() -> None:
    """Empty what is computed once, so that every repetition computes it again."""
    for cached in (certified_epsilon, calibrate_power, gaussian_mu, binomial_quantile):
        cached.cache_clear()


def _library_event(mechanism: GaussianSlots) -> tuple[Any, int]:
    gaussian = dp_accounting.GaussianDpEvent(mechanism.squared_shifts[0] ** -0.5)
    if mechanism.sampling == "poisson":
        return dp_accounting.PoissonSampledDpEvent(mechanism.sampling_rate, gaussian), mechanism.slots
    drawn = dp_accounting.SampledWithoutReplacementDpEvent(mechanism.population, mechanism.sampled, gaussian)
    return drawn, mechanism.slots


def _library_rdp(mechanism: GaussianSlots, delta: float) -> float:
    relation = REMOVE if mechanism.sampling == "poisson" else REPLACE
    accountant = dp_accounting.rdp.RdpAccountant(ORDERS, relation)
    return float(accountant.compose(*_library_event(mechanism)).get_epsilon(delta))


def _library_pld(mechanism: GaussianSlots, delta: float) -> float:
    return float(dp_accounting.pld.PLDAccountant(REMOVE).compose(*_library_event(mechanism)).get_epsilon(delta))


@lru_cache(maxsize=1)
def _opacus_accountants() -> Mapping[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from opacus.accountants import PRVAccountant, RDPAccountant  # noqa: PLC0415 - it may not be there

    return {"rdp": RDPAccountant, "prv": PRVAccountant}


def _opacus(name: str, mechanism: GaussianSlots, delta: float) -> float:
    accountant = _opacus_accountants()[name]()
    accountant.history = [(mechanism.squared_shifts[0] ** -0.5, mechanism.sampling_rate, mechanism.slots)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return float(accountant.get_epsilon(delta))


def _opacus_calibration(name: str, rate: float, count: int, delta: float) -> float:
    from opacus.accountants.utils import get_noise_multiplier  # noqa: PLC0415 - it may not be there

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return float(
            get_noise_multiplier(
                target_epsilon=CALIBRATED_EPSILON,
                target_delta=delta,
                sample_rate=rate,
                steps=count,
                accountant=name,
                epsilon_tolerance=1e-3,
            )
        )


def _row(work: str, against: str, ours: Query, theirs: Query, *, same: bool = True, repeats: int = 3) -> Row:
    """Return both times and both answers; ``same``: the answers must be equal up to 1 %."""
    found = {"ours": _Timed(ours), "theirs": _Timed(theirs)}
    for _ in range(repeats):
        for each in found.values():
            each.again()
    answers = [each.answer for each in found.values()]
    if same and not math.isclose(*answers, rel_tol=0.01, abs_tol=1e-6):
        raise ArithmeticError(f"{work}: {answers[0]:g} here, {answers[1]:g} by {against}")
    return {
        "work": work,
        "against": against,
        "ours_seconds": found["ours"].best,
        "theirs_seconds": found["theirs"].best,
        "ratio": found["theirs"].best / found["ours"].best,
        "target": NEVER_SLOWER,
        "our_answer": answers[0],
        "their_answer": answers[1],
    }


class _Timed:
    """A query, its answer and the least CPU time that it took; quick ones are repeated until they can be timed."""

    def __init__(self, query: Query) -> None:
        self.query, self.answer, self.best = query, math.nan, math.inf

    def again(self) -> None:
        started, done = time.process_time(), 0
        while done == 0 or time.process_time() - started < SHORTEST_SECONDS:
            self.answer = self.query()
            done += 1
        self.best = min(self.best, (time.process_time() - started) / done)


if __name__ == "__main__":
    for each in rows():
        print(each)
