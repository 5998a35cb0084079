"""What the paper's text says about its tables and figures, tested on the runs.

Seeds are compared pairwise: the same seed draws the same workers, schedule and noise for both sides of a comparison.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import numpy as np
from scipy import stats

from airmixml.study.reproduction.figure_cells import ASSIGNMENTS, EXPONENTS, FADINGS, SCHEDULED
from airmixml.study.reproduction.results import CellResult, Summary

__all__ = ["Claim", "Interval", "check_claims", "paired_interval"]

Decision = Literal["holds", "does not hold", "undecided"]
CONFIDENCE: Final = 0.95
CHANCE_PERCENT: Final = 15.0


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One sentence of the paper in one case, and what the runs say to it."""

    place: str
    says: str
    case: str
    decision: Decision
    evidence: str

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "place": self.place,
            "says": self.says,
            "case": self.case,
            "decision": self.decision,
            "evidence": self.evidence,
        }


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A mean with its 95 % confidence interval; the interval is the whole line where there is only one value."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        if math.isinf(self.high):
            return "no seed could be compared" if math.isnan(self.mean) else f"{self.mean:+.1f} (one seed)"
        return f"{self.mean:+.1f} ({self.low:+.1f} to {self.high:+.1f})"


def paired_interval(values: Sequence[float]) -> Interval:
    """Return the mean of the values with Student's confidence interval."""
    if not values:
        return Interval(mean=math.nan, low=-math.inf, high=math.inf)
    mean = float(np.mean(values))
    if len(values) < 2:
        return Interval(mean=mean, low=-math.inf, high=math.inf)
    half = float(stats.t.ppf(0.5 + CONFIDENCE / 2.0, len(values) - 1) * stats.sem(values))
    return Interval(mean=mean, low=mean - half, high=mean + half)


def check_claims(results: Sequence[CellResult]) -> list[Claim]:
    """Return every claim of the paper that the results can speak to."""
    every: list[Callable[[_Table], Iterator[Claim]]] = [
        _bold_entries,
        _alpha_guidelines,
        _iris_at_five,
        _mnist_at_ten,
        _energy_and_alpha,
        _policies,
        _fading,
        _max_min,
    ]
    table = _Table([result for result in results if not result.cell.reading])
    claims = [claim for test in every for claim in test(table)]
    reread = [result for result in results if result.cell.reading and result.cell.target == "table1"]
    if not reread:
        return claims
    others = _Table([*table.results, *reread])
    again = [claim for test in (_bold_entries, _alpha_guidelines) for claim in test(others)]
    known = {(claim.place, claim.says, claim.case): claim.evidence for claim in claims}
    return claims + [
        replace(claim, case=f"{claim.case}, read otherwise")
        for claim in again
        if known.get((claim.place, claim.says, claim.case)) != claim.evidence
    ]


class _Table:
    """Results by their place; of several readings of a place the last counts."""

    def __init__(self, results: Sequence[CellResult]) -> None:
        self._by_place = {result.cell.place: result for result in results if result.measured is not None}
        self.results = list(self._by_place.values())

    def of(self, target: str, dataset: str | None = None) -> list[CellResult]:
        return [
            result for result in self.results if result.cell.target == target and dataset in (None, result.cell.dataset)
        ]

    def datasets(self, target: str) -> list[str]:
        return list(dict.fromkeys(result.cell.dataset for result in self.of(target)))

    def data_name(self, target: str, dataset: str) -> str:
        """Return what the half of a table was really run on: digits, in a small version."""
        return self.of(target, dataset)[0].cell.scenario.workers.dataset

    def figure(self, name: str) -> str:
        """Return the name of a figure, and what it was run on if that is not MNIST."""
        run_on = self.data_name(f"fig{name[5]}", "mnist")
        return name if run_on == "mnist" else f"{name}, {run_on}"

    def summary(self, target: str, row: str, column: str) -> Summary | None:
        result = self._by_place.get((target, "mnist", row, column))
        return None if result is None else result.measured

    def triples(self, target: str, dataset: str) -> list[list[CellResult]]:
        """Return the entries of one row and number of workers, in the order of alpha."""
        groups: dict[tuple[str, int], list[CellResult]] = {}
        for result in self.of(target, dataset):
            groups.setdefault((result.cell.row, result.cell.scenario.radio.scheduled), []).append(result)
        return list(groups.values())


def _measured(result: CellResult) -> Summary:
    assert result.measured is not None
    return result.measured


def _difference(left: Summary | None, right: Summary | None) -> Interval:
    """Return left minus right over the seeds that both have."""
    gaps = _gaps(left, right)
    return paired_interval(list(gaps.values()))


def _gaps(left: Summary | None, right: Summary | None) -> dict[int, float]:
    if left is None or right is None:
        return {}
    theirs = dict(zip(right.seeds, right.values, strict=True))
    return {seed: value - theirs[seed] for seed, value in zip(left.seeds, left.values, strict=True) if seed in theirs}


def _decide(interval: Interval, *, above: float = -math.inf, below: float = math.inf) -> Decision:
    """Decide whether a mean lies between two bounds, if its confidence interval allows it."""
    if above <= interval.low and interval.high <= below:
        return "holds"
    return "does not hold" if interval.high < above or interval.low > below else "undecided"


def _bold_entries(table: _Table) -> Iterator[Claim]:
    for dataset in table.datasets("table1"):
        for triple in table.triples("table1", dataset):
            bold = next((result for result in triple if result.cell.stands_out), None)
            others = [result for result in triple if result is not bold]
            if bold is None or not others:
                continue
            rival = max(others, key=lambda result: _measured(result).mean)
            lead = _difference(bold.measured, rival.measured)
            yield Claim(
                place=f"Table I, {table.data_name('table1', dataset)}",
                says="the entry in bold is the best of its row",
                case=f"{bold.cell.row}, {bold.cell.column}",
                decision=_decide(lead, above=0.0),
                evidence=f"{lead} points ahead of the next, {rival.cell.column.partition(', ')[2]}",
            )


def _alpha_guidelines(table: _Table) -> Iterator[Claim]:
    """Remark 2: large alpha under tight privacy, small alpha under loose privacy."""
    for dataset in table.datasets("table1"):
        triples = table.triples("table1", dataset)
        rows = list(dict.fromkeys(triple[0].cell.row for triple in triples))
        for says, chosen, sign in (
            ("under tight privacy a larger alpha is better", rows[:2], 1.0),
            ("under loose privacy a smaller alpha is better", rows[-2:], -1.0),
        ):
            gaps = [
                _gaps(triple[-1].measured, triple[0].measured) for triple in triples if triple[0].cell.row in chosen
            ]
            seeds = set.intersection(*(set(gap) for gap in gaps))
            lead = paired_interval([sign * float(np.mean([gap[seed] for gap in gaps])) for seed in sorted(seeds)])
            yield Claim(
                place=f"Table I, {table.data_name('table1', dataset)}, Remark 2",
                says=says,
                case=f"largest against smallest alpha, {' and '.join(chosen)}",
                decision=_decide(lead, above=0.0),
                evidence=f"{lead} points",
            )


def _iris_at_five(table: _Table) -> Iterator[Claim]:
    cells = [result for result in table.of("table1", "iris") if result.cell.row == "epsilon = 5"]
    if cells and cells[0].cell.printed is not None:
        best = max(cells, key=lambda result: _measured(result).mean)
        reached = paired_interval(_measured(best).values)
        flattering = max(result.best_epoch.mean for result in cells if result.best_epoch is not None)
        yield Claim(
            place="Section IV-B",
            says="Iris reaches 92 % at epsilon = 5",
            case=best.cell.column,
            decision=_decide(reached, above=92.0),
            evidence=f"{reached.mean:.1f} ({reached.low:.1f} to {reached.high:.1f}) % after the final epoch; "
            f"{flattering:.1f} % in the best epoch of the best column",
        )


def _mnist_at_ten(table: _Table) -> Iterator[Claim]:
    cells = [result for result in table.of("table1", "mnist") if result.cell.row == "epsilon = 10"]
    if cells and cells[0].cell.printed is not None:
        values = np.concatenate([_measured(result).values for result in cells])
        left = int((values > CHANCE_PERCENT).sum())
        yield Claim(
            place="Section IV-B",
            says="MNIST stays at chance for epsilon = 10, whatever alpha is",
            case="all columns",
            decision="does not hold" if left else "holds",
            evidence=f"{left} of {len(values)} runs end above {CHANCE_PERCENT:g} %, the best at {values.max():.1f} %",
        )


def _energy_and_alpha(table: _Table) -> Iterator[Claim]:
    for dataset in table.datasets("table2"):
        triples = table.triples("table2", dataset)
        rising = sum(bool(np.all(np.diff([_measured(result).mean for result in triple]) > 0)) for triple in triples)
        yield Claim(
            place=f"Table II, {table.data_name('table2', dataset)}",
            says="a smaller alpha spends less energy",
            case="every row",
            decision="holds" if rising == len(triples) else "does not hold",
            evidence=f"{rising} of {len(triples)} rows rise with alpha",
        )


def _policies(table: _Table) -> Iterator[Claim]:
    if not table.of("fig3"):
        return
    for scheduled in SCHEDULED:
        by_exponent = {}
        for exponent in EXPONENTS:
            row = f"n = {exponent}, {scheduled} workers"
            mixed, equal, alone = (table.summary("fig3", row, name) for name in ("DirMix(5)", "EqualMix", "NonMix"))
            by_exponent[exponent] = mixed
            lead, loss = _difference(mixed, equal), _difference(alone, mixed)
            yield Claim(
                place=table.figure("Fig. 3"),
                says="DirMix(5) beats EqualMix",
                case=row,
                decision=_decide(lead, above=0.0),
                evidence=f"{lead} points",
            )
            yield Claim(
                place=table.figure("Fig. 3"),
                says="DirMix(5) loses less than 2 points to NonMix",
                case=row,
                decision=_decide(loss, below=2.0),
                evidence=f"{loss} points lost",
            )
        drop = _difference(by_exponent[EXPONENTS[0]], by_exponent[EXPONENTS[1]])
        yield Claim(
            place=table.figure("Fig. 3"),
            says="a larger path-loss exponent lowers the accuracy of DirMix(5)",
            case=f"{scheduled} workers",
            decision=_decide(drop, above=0.0),
            evidence=f"{drop} points from n = {EXPONENTS[0]} to n = {EXPONENTS[1]}",
        )


def _fading(table: _Table) -> Iterator[Claim]:
    if not table.of("fig4"):
        return
    calm, *fadings = FADINGS
    for scheduled in SCHEDULED:
        row = f"{ASSIGNMENTS[0]}, {scheduled} workers"
        without = table.summary("fig4", row, calm)
        for fading in fadings:
            harm = _difference(without, table.summary("fig4", row, fading))
            yield Claim(
                place=table.figure("Fig. 4a"),
                says="fading lowers the accuracy",
                case=f"{fading}, {scheduled} workers",
                decision=_decide(harm, above=0.0),
                evidence=f"{harm} points lost",
            )
        largest, smallest = fadings[0], fadings[-2]
        growth = _difference(table.summary("fig4", row, smallest), table.summary("fig4", row, largest))
        yield Claim(
            place=table.figure("Fig. 4a"),
            says="accuracy becomes poorer as K increases",
            case=f"{smallest} against {largest}, {scheduled} workers",
            decision=_decide(growth, above=0.0),
            evidence=f"{growth} points from the larger to the smaller K",
        )


def _max_min(table: _Table) -> Iterator[Claim]:
    if not table.of("fig4"):
        return
    calm, *fadings = FADINGS
    for scheduled in SCHEDULED:
        without = table.summary("fig4", f"{ASSIGNMENTS[0]}, {scheduled} workers", calm)
        for fading in fadings:
            loss = _difference(without, table.summary("fig4", f"{ASSIGNMENTS[1]}, {scheduled} workers", fading))
            yield Claim(
                place=table.figure("Fig. 4b"),
                says="max-min assignment restores the accuracy without fading (to within a point)",
                case=f"{fading}, {scheduled} workers",
                decision=_decide(loss, below=1.0),
                evidence=f"{loss} points short of no fading",
            )
