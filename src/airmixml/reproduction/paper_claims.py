"""What the paper's text says about its tables and figures, tested on the runs.

Seeds are compared pairwise: the same seed draws the same workers, schedule and noise for both sides of a comparison.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

import numpy as np

from airmixml.reproduction.cells import ASSIGNMENTS, EXPONENTS, FADINGS, POLICIES, SCHEDULED
from airmixml.reproduction.results import CellResult, Decision, Interval, Summary, decide, mean_interval

CHANCE_PERCENT: Final = 15.0


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One sentence of the paper in one case, and what the runs say to it.

    ``light`` is what the sentence is held against, if not the final epoch of the settings as printed.
    """

    place: str
    says: str
    case: str
    light: str = ""
    decision: Decision
    evidence: str

    @classmethod
    def about(
        cls,
        gap: Interval,
        place: str,
        says: str,
        case: str,
        *,
        above: float = -math.inf,
        below: float = math.inf,
        of: str = "",
    ) -> Claim:
        """Return the claim that a paired difference, in points ``of`` something, lies between two bounds."""
        decision = decide(gap, above=above, below=below)
        return cls(place=place, says=says, case=case, decision=decision, evidence=gap.points(of))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return asdict(self)


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
    printed = [result for result in results if not result.cell.reading]
    claims = [claim for test in every for claim in test(_Table(printed))]
    of_table1 = [result for result in results if result.cell.target == "table1"]
    return claims + _in_another_light(of_table1)


def _in_another_light(of_table1: Sequence[CellResult]) -> list[Claim]:
    """Return the claims about alpha for the best epoch and for rows read otherwise, where that makes a difference."""
    printed = [result for result in of_table1 if not result.cell.reading]

    def about_alpha(results: Sequence[CellResult], quantity: str, light: str) -> list[Claim]:
        table = _Table(results, quantity)
        return [replace(claim, light=light) for claim in (*_bold_entries(table), *_alpha_guidelines(table))]

    best = about_alpha(printed, "best_epoch", "best epoch")
    final = about_alpha(printed, "measured", "")
    reread = about_alpha(of_table1, "measured", "read otherwise")
    reread_best = about_alpha(of_table1, "best_epoch", "read otherwise, best epoch")
    return [
        claim
        for told, *others in ((best, final), (reread, final), (reread_best, best, reread))
        for claim, *known in zip(told, *others, strict=True)
        if claim.evidence not in [other.evidence for other in known]
    ]


class _Table:
    """Results by their place, failed ones too; of several readings of a place the last counts.

    ``quantity`` says what of them is compared: ``measured`` (the final epoch, or energy) or ``best_epoch``.
    """

    def __init__(self, results: Sequence[CellResult], quantity: str = "measured") -> None:
        self._quantity = quantity
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
        return None if result is None else self.values(result)

    def values(self, result: CellResult) -> Summary | None:
        summary: Summary | None = getattr(result, self._quantity)
        return summary

    def mean(self, result: CellResult) -> float:
        summary = self.values(result)
        return -math.inf if summary is None else summary.mean

    def triples(self, target: str, dataset: str) -> list[list[CellResult]]:
        """Return the entries of one row and number of workers, in the order of alpha."""
        groups: dict[tuple[str, int], list[CellResult]] = {}
        for result in self.of(target, dataset):
            groups.setdefault((result.cell.row, result.cell.scenario.radio.scheduled), []).append(result)
        return list(groups.values())


def _difference(left: Summary | None, right: Summary | None) -> Interval:
    """Return left minus right over the seeds that both have."""
    return mean_interval(list(_gaps(left, right).values()))


def _gaps(left: Summary | None, right: Summary | None) -> dict[int, float]:
    """Return left minus right by seed; nothing where one of them failed."""
    if left is None or right is None:
        return {}
    theirs = dict(zip(right.seeds, right.values, strict=True))
    return {seed: value - theirs[seed] for seed, value in zip(left.seeds, left.values, strict=True) if seed in theirs}


def _bold_entries(table: _Table) -> Iterator[Claim]:
    for dataset in table.datasets("table1"):
        for triple in table.triples("table1", dataset):
            bold = next((result for result in triple if result.cell.stands_out), None)
            others = [result for result in triple if result is not bold]
            if bold is None:
                continue
            rival = max(others, key=table.mean)
            lead = _difference(table.values(bold), table.values(rival))
            yield Claim.about(
                lead,
                f"Table I, {table.data_name('table1', dataset)}",
                "the entry in bold is the best of its row",
                f"{bold.cell.row}, {bold.cell.column}",
                above=0.0,
                of=f" ahead of the next, {rival.cell.column.partition(', ')[2]}",
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
                _gaps(table.values(triple[-1]), table.values(triple[0]))
                for triple in triples
                if triple[0].cell.row in chosen
            ]
            seeds = sorted(set.intersection(*(set(lead) for lead in leads)))
            lead = mean_interval([sign * float(np.mean([lead[seed] for lead in leads])) for seed in seeds])
            place = f"Table I, {table.data_name('table1', dataset)}, Remark 2"
            case = f"largest against smallest alpha, {' and '.join(chosen)}"
            yield Claim.about(lead, place, says, case, above=0.0)


def _iris_at_five(table: _Table) -> Iterator[Claim]:
    cells = [result for result in table.of("table1", "iris") if result.cell.row == "epsilon = 5"]
    best = max(cells, key=table.mean, default=None)
    if best is not None and best.measured is not None and best.cell.printed is not None:
        reached = mean_interval(best.measured.values)
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
        rising = sum(bool(np.all(np.diff([table.mean(result) for result in triple]) > 0)) for triple in whole)
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
    place = table.figure("Fig. 3")
    for scheduled in SCHEDULED:
        for exponent in EXPONENTS:
            row = f"n = {exponent}, {scheduled} workers"
            mixed, equal, alone = (table.summary("fig3", row, name) for name in ("DirMix(5)", "EqualMix", "NonMix"))
            lead, loss = _difference(mixed, equal), _difference(alone, mixed)
            best, against = "without privacy constraints NonMix is best", f"against DirMix(5), {row}"
            yield Claim.about(lead, place, "DirMix(5) beats EqualMix", row, above=0.0)
            yield Claim.about(loss, place, best, against, above=0.0, of=" ahead")
            yield Claim.about(loss, place, "DirMix(5) loses less than 2 points to NonMix", row, below=2.0, of=" lost")
        says = "a larger path-loss exponent lowers the accuracy"
        for policy in POLICIES:
            near, far = (table.summary("fig3", f"n = {n}, {scheduled} workers", policy) for n in EXPONENTS)
            case, of = f"{policy}, {scheduled} workers", f" from n = {EXPONENTS[0]} to n = {EXPONENTS[1]}"
            yield Claim.about(_difference(near, far), place, says, case, above=0.0, of=of)


def _fading(table: _Table) -> Iterator[Claim]:
    if not table.of("fig4"):
        return
    place = table.figure("Fig. 4a")
    calm, *fadings = FADINGS
    largest, smallest = fadings[0], fadings[-2]
    for scheduled in SCHEDULED:
        found = {fading: table.summary("fig4", f"{ASSIGNMENTS[0]}, {scheduled} workers", fading) for fading in FADINGS}
        for fading in fadings:
            harm, case = _difference(found[calm], found[fading]), f"{fading}, {scheduled} workers"
            yield Claim.about(harm, place, "fading lowers the accuracy", case, above=0.0, of=" lost")
        yield Claim.about(
            _difference(found[smallest], found[largest]),
            place,
            "accuracy becomes poorer as K increases",
            f"{smallest} against {largest}, {scheduled} workers",
            above=0.0,
            of=" from the larger to the smaller K",
        )


def _max_min(table: _Table) -> Iterator[Claim]:
    if not table.of("fig4"):
        return
    place = table.figure("Fig. 4b")
    restored = "max-min assignment restores the accuracy without fading (less than a point lost)"
    unmoved = "with max-min assignment fading makes no difference (within a point)"
    calm, *fadings = FADINGS
    for scheduled in SCHEDULED:
        random, max_min = (f"{assignment}, {scheduled} workers" for assignment in ASSIGNMENTS)
        for fading in fadings:
            case, under_fading = f"{fading}, {scheduled} workers", table.summary("fig4", max_min, fading)
            loss = _difference(table.summary("fig4", random, calm), under_fading)
            yield Claim.about(loss, place, restored, case, below=1.0, of=" lost")
            change = _difference(table.summary("fig4", max_min, calm), under_fading)
            yield Claim.about(change, place, unmoved, case, above=-1.0, below=1.0, of=" lost")
