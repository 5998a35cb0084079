"""What the paper's text says about its tables and figures, tested on the runs.

Seeds are compared pairwise: the same seed draws the same workers, schedule and noise for both sides of a comparison.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from airmixml.study.reproduction.figure_cells import ASSIGNMENTS, EXPONENTS, FADINGS, SCHEDULED
from airmixml.study.reproduction.intervals import Decision, decide, difference, gaps, paired_interval
from airmixml.study.reproduction.results import CellResult, Summary

__all__ = ["Claim", "check_claims"]

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
    """Results by their place, failed ones too; of several readings of a place the last counts."""

    def __init__(self, results: Sequence[CellResult]) -> None:
        self._by_place = {result.cell.place: result for result in results}
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


def _mean(result: CellResult) -> float:
    return -math.inf if result.measured is None else result.measured.mean


def _bold_entries(table: _Table) -> Iterator[Claim]:
    for dataset in table.datasets("table1"):
        for triple in table.triples("table1", dataset):
            bold = next((result for result in triple if result.cell.stands_out), None)
            others = [result for result in triple if result is not bold]
            if bold is None:
                continue
            rival = max(others, key=_mean)
            lead = difference(bold.measured, rival.measured)
            yield Claim(
                place=f"Table I, {table.data_name('table1', dataset)}",
                says="the entry in bold is the best of its row",
                case=f"{bold.cell.row}, {bold.cell.column}",
                decision=decide(lead, above=0.0),
                evidence=lead.points(f" ahead of the next, {rival.cell.column.partition(', ')[2]}"),
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
            leads = [
                gaps(triple[-1].measured, triple[0].measured) for triple in triples if triple[0].cell.row in chosen
            ]
            seeds = sorted(set.intersection(*(set(lead) for lead in leads)))
            lead = paired_interval([sign * float(np.mean([lead[seed] for lead in leads])) for seed in seeds])
            yield Claim(
                place=f"Table I, {table.data_name('table1', dataset)}, Remark 2",
                says=says,
                case=f"largest against smallest alpha, {' and '.join(chosen)}",
                decision=decide(lead, above=0.0),
                evidence=lead.points(),
            )


def _iris_at_five(table: _Table) -> Iterator[Claim]:
    cells = [result for result in table.of("table1", "iris") if result.cell.row == "epsilon = 5"]
    best = max(cells, key=_mean, default=None)
    if best is not None and best.measured is not None and best.cell.printed is not None:
        reached = paired_interval(best.measured.values)
        flattering = max(result.best_epoch.mean for result in cells if result.best_epoch is not None)
        yield Claim(
            place="Section IV-B",
            says="Iris reaches 92 % at epsilon = 5",
            case=best.cell.column,
            decision=decide(reached, above=92.0),
            evidence=f"{reached.percent()} after the final epoch; "
            f"{flattering:.1f} % in the best epoch of the best column",
        )


def _mnist_at_ten(table: _Table) -> Iterator[Claim]:
    cells = [result for result in table.of("table1", "mnist") if result.cell.row == "epsilon = 10"]
    values = np.array([value for result in cells if result.measured for value in result.measured.values])
    if len(values) and cells[0].cell.printed is not None:
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
        whole = [triple for triple in triples if all(result.measured for result in triple)]
        rising = sum(bool(np.all(np.diff([_mean(result) for result in triple]) > 0)) for triple in whole)
        yield Claim(
            place=f"Table II, {table.data_name('table2', dataset)}",
            says="a smaller alpha spends less energy",
            case="every row",
            decision="does not hold" if rising < len(whole) else "holds" if len(whole) == len(triples) else "undecided",
            evidence=f"{rising} of {len(whole)} rows rise with alpha",
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
            lead, loss = difference(mixed, equal), difference(alone, mixed)
            yield Claim(
                place=table.figure("Fig. 3"),
                says="DirMix(5) beats EqualMix",
                case=row,
                decision=decide(lead, above=0.0),
                evidence=lead.points(),
            )
            yield Claim(
                place=table.figure("Fig. 3"),
                says="DirMix(5) loses less than 2 points to NonMix",
                case=row,
                decision=decide(loss, below=2.0),
                evidence=loss.points(" lost"),
            )
        drop = difference(by_exponent[EXPONENTS[0]], by_exponent[EXPONENTS[1]])
        yield Claim(
            place=table.figure("Fig. 3"),
            says="a larger path-loss exponent lowers the accuracy of DirMix(5)",
            case=f"{scheduled} workers",
            decision=decide(drop, above=0.0),
            evidence=drop.points(f" from n = {EXPONENTS[0]} to n = {EXPONENTS[1]}"),
        )


def _fading(table: _Table) -> Iterator[Claim]:
    if not table.of("fig4"):
        return
    calm, *fadings = FADINGS
    for scheduled in SCHEDULED:
        row = f"{ASSIGNMENTS[0]}, {scheduled} workers"
        without = table.summary("fig4", row, calm)
        for fading in fadings:
            harm = difference(without, table.summary("fig4", row, fading))
            yield Claim(
                place=table.figure("Fig. 4a"),
                says="fading lowers the accuracy",
                case=f"{fading}, {scheduled} workers",
                decision=decide(harm, above=0.0),
                evidence=harm.points(" lost"),
            )
        largest, smallest = fadings[0], fadings[-2]
        growth = difference(table.summary("fig4", row, smallest), table.summary("fig4", row, largest))
        yield Claim(
            place=table.figure("Fig. 4a"),
            says="accuracy becomes poorer as K increases",
            case=f"{smallest} against {largest}, {scheduled} workers",
            decision=decide(growth, above=0.0),
            evidence=growth.points(" from the larger to the smaller K"),
        )


def _max_min(table: _Table) -> Iterator[Claim]:
    if not table.of("fig4"):
        return
    calm, *fadings = FADINGS
    for scheduled in SCHEDULED:
        without = table.summary("fig4", f"{ASSIGNMENTS[0]}, {scheduled} workers", calm)
        for fading in fadings:
            loss = difference(without, table.summary("fig4", f"{ASSIGNMENTS[1]}, {scheduled} workers", fading))
            yield Claim(
                place=table.figure("Fig. 4b"),
                says="max-min assignment restores the accuracy without fading (to within a point)",
                case=f"{fading}, {scheduled} workers",
                decision=decide(loss, below=1.0),
                evidence=loss.points(" short of no fading"),
            )
