"""What the paper's text says about its tables and figures, tested on the runs.

Seeds are compared pairwise: the same seed draws the same workers, schedule and noise for both sides of a comparison.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any, Final

import numpy as np

from airmixml.messages import NOT_BY_QUICK
from airmixml.reproduction.paper_cells import ASSIGNMENTS, EXPONENTS, FADINGS, POLICIES, SCHEDULED, Cell
from airmixml.reproduction.verdicts import CellResult, Decision, Summary, decide, mean_interval

CHANCE_PERCENT: Final = 15.0
_Curve = tuple[str, str]  # its row and column


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
    compared: int = 0  #: seeds, runs or rows that it rests on


def check_claims(results: Sequence[CellResult]) -> list[Claim]:
    """Return every claim of the paper that the results can speak to."""
    tests: dict[str, tuple[Callable[[_Table], Iterator[Claim]], ...]] = {
        "table1": (_bold_entries, _alpha_guidelines, _iris_at_five, _mnist_at_ten),
        "table2": (_energy_and_alpha,),
        "fig3": (_policies,),
        "fig4": (_fading, _max_min),
    }
    table = _Table([result for result in results if not result.cell.reading])
    claims = [claim for target, every in tests.items() if table.of(target) for test in every for claim in test(table)]
    return claims + _in_another_light([result for result in results if result.cell.target == "table1"])


def check_some_claims(results: Sequence[CellResult], left_out: Sequence[Cell]) -> list[Claim]:
    """Return the same where cells were left out: the evidence of a claim that rests on them is what runs them."""
    every = [*results, *(CellResult(cell=cell) for cell in left_out)]
    return [
        claim if claim.compared else replace(claim, decision=NOT_BY_QUICK, evidence=command)
        for command in dict.fromkeys(result.cell.command for result in every)
        for claim in check_claims([result for result in every if result.cell.command == command])
    ]


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

    def of(self, target: str, dataset: str = "", row: str = "") -> list[CellResult]:
        """Return the results of a table or figure, of one half of it, of one of its rows."""
        cells = [(result, result.cell) for result in self._by_place.values() if result.cell.target == target]
        return [result for result, cell in cells if dataset in ("", cell.dataset) and row in ("", cell.row)]

    def halves(self, target: str) -> Iterator[tuple[str, list[list[CellResult]]]]:
        """Yield what each half of a table was really run on, and its entries.

        Entries of one row and number of workers are together, in the order of alpha.
        """
        groups: dict[tuple[str, str], dict[tuple[str, int], list[CellResult]]] = {}
        for result in self.of(target):
            cell, scenario = result.cell, result.cell.scenario
            half = groups.setdefault((cell.dataset, scenario.workers.dataset), {})
            half.setdefault((cell.row, scenario.radio.scheduled), []).append(result)
        return ((run_on, list(half.values())) for (_, run_on), half in groups.items())

    def mean(self, result: CellResult) -> float:
        summary = getattr(result, self._quantity)
        return -inf if summary is None else float(summary.mean)

    def gaps(self, left: CellResult | None, right: CellResult | None) -> dict[int, float]:
        """Return left minus right by seed; nothing where one of them failed."""
        found: list[Summary | None] = [getattr(result, self._quantity, None) for result in (left, right)]
        ours, theirs = ({} if each is None else dict(zip(each.seeds, each.values, strict=True)) for each in found)
        return {seed: value - theirs[seed] for seed, value in ours.items() if seed in theirs}

    def compare(
        self, target: str, figure: str, says: str, case: str, left: _Curve, right: _Curve, **bounds: Any
    ) -> Claim:
        """Return the claim about the difference of two curves of a target; ``figure`` is where the paper says it."""
        run_on = self.of(target)[0].cell.scenario.workers.dataset
        ours, theirs = (self._by_place.get((target, "mnist", *curve)) for curve in (left, right))
        place = figure if run_on == "mnist" else f"{figure}, {run_on}"
        return _claim(self.gaps(ours, theirs).values(), place, says, case, **bounds)


def _claim(
    gaps: Iterable[float], place: str, says: str, case: str, *, above: float = -inf, below: float = inf, of: str = ""
) -> Claim:
    """Return the claim that the mean of paired differences, in points ``of`` something, lies between two bounds."""
    found = list(gaps)
    gap = mean_interval(found)
    decision = decide(gap, above=above, below=below)
    evidence = gap.points(of)
    return Claim(place=place, says=says, case=case, decision=decision, evidence=evidence, compared=len(found))


def _bold_entries(table: _Table) -> Iterator[Claim]:
    says = "the entry in bold is the best of its row"
    for run_on, triples in table.halves("table1"):
        for triple in triples:
            bold = next((result for result in triple if result.cell.stands_out), None)
            if bold is None:
                continue
            rival = max((result for result in triple if result is not bold), key=table.mean)
            case, of = f"{bold.cell.row}, {bold.cell.column}", rival.cell.column.partition(", ")[2]
            gaps = table.gaps(bold, rival).values()
            yield _claim(gaps, f"Table I, {run_on}", says, case, above=0.0, of=f" ahead of the next, {of}")


def _alpha_guidelines(table: _Table) -> Iterator[Claim]:
    """Remark 2: large alpha under tight privacy, small alpha under loose privacy."""
    for run_on, triples in table.halves("table1"):
        rows = list(dict.fromkeys(triple[0].cell.row for triple in triples))
        for says, chosen, sign in (
            ("under tight privacy a larger alpha is better", rows[:2], 1.0),
            ("under loose privacy a smaller alpha is better", rows[-2:], -1.0),
        ):
            leads = [table.gaps(triple[-1], triple[0]) for triple in triples if triple[0].cell.row in chosen]
            seeds = sorted(set.intersection(*(set(lead) for lead in leads)))
            gaps = [sign * float(np.mean([lead[seed] for lead in leads])) for seed in seeds]
            case = f"largest against smallest alpha, {' and '.join(chosen)}"
            yield _claim(gaps, f"Table I, {run_on}, Remark 2", says, case, above=0.0)


def _iris_at_five(table: _Table) -> Iterator[Claim]:
    cells = table.of("table1", "iris", "epsilon = 5")
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
            compared=len(best.measured.values),
        )


def _mnist_at_ten(table: _Table) -> Iterator[Claim]:
    cells = table.of("table1", "mnist", "epsilon = 10")
    values = np.array([value for result in cells if result.measured for value in result.measured.values])
    if cells and cells[0].cell.printed is not None:
        left, best = int((values > CHANCE_PERCENT).sum()), values.max(initial=0.0)
        yield Claim(
            place="Section IV-B",
            says="MNIST stays at chance for epsilon = 10, whatever alpha is",
            case="all columns",
            decision="does not hold" if left else "holds" if len(values) else "undecided",
            evidence=f"{left} of {len(values)} runs end above {CHANCE_PERCENT:g} %, the best at {best:.1f} %",
            compared=len(values),
        )


def _energy_and_alpha(table: _Table) -> Iterator[Claim]:
    for run_on, triples in table.halves("table2"):
        whole = [triple for triple in triples if all(result.measured for result in triple)]
        rising = sum(bool(np.all(np.diff([table.mean(result) for result in triple]) > 0)) for triple in whole)
        yield Claim(
            place=f"Table II, {run_on}",
            says="a smaller alpha spends less energy",
            case="every row",
            decision="does not hold" if rising < len(whole) else "holds" if len(whole) == len(triples) else "undecided",
            evidence=f"{rising} of {len(whole)} rows rise with alpha",
            compared=len(whole),
        )


def _policies(table: _Table) -> Iterator[Claim]:
    says = "a larger path-loss exponent lowers the accuracy"
    best, cheap = "without privacy constraints NonMix is best", "DirMix(5) loses less than 2 points to NonMix"
    for scheduled in SCHEDULED:
        near, far = (f"n = {exponent}, {scheduled} workers" for exponent in EXPONENTS)
        for row in (near, far):
            mixed, equal, alone = ((row, policy) for policy in ("DirMix(5)", "EqualMix", "NonMix"))
            yield table.compare("fig3", "Fig. 3", "DirMix(5) beats EqualMix", row, mixed, equal, above=0.0)
            rival = f"against DirMix(5), {row}"
            yield table.compare("fig3", "Fig. 3", best, rival, alone, mixed, above=0.0, of=" ahead")
            yield table.compare("fig3", "Fig. 3", cheap, row, alone, mixed, below=2.0, of=" lost")
        for policy in POLICIES:
            case, of = f"{policy}, {scheduled} workers", f" from n = {EXPONENTS[0]} to n = {EXPONENTS[1]}"
            yield table.compare("fig3", "Fig. 3", says, case, (near, policy), (far, policy), above=0.0, of=of)


def _fading(table: _Table) -> Iterator[Claim]:
    says = "accuracy becomes poorer as K increases"
    calm, *fadings = FADINGS
    largest, smallest = fadings[0], fadings[-2]
    for scheduled in SCHEDULED:
        row = f"{ASSIGNMENTS[0]}, {scheduled} workers"
        for fading in fadings:
            harm, case = "fading lowers the accuracy", f"{fading}, {scheduled} workers"
            yield table.compare("fig4", "Fig. 4a", harm, case, (row, calm), (row, fading), above=0.0, of=" lost")
        case, of = f"{smallest} against {largest}, {scheduled} workers", " from the larger to the smaller K"
        yield table.compare("fig4", "Fig. 4a", says, case, (row, smallest), (row, largest), above=0.0, of=of)


def _max_min(table: _Table) -> Iterator[Claim]:
    restored = "max-min assignment restores the accuracy without fading (less than a point lost)"
    unmoved = "with max-min assignment fading makes no difference (within a point)"
    calm, *fadings = FADINGS
    for scheduled in SCHEDULED:
        random, max_min = (f"{assignment}, {scheduled} workers" for assignment in ASSIGNMENTS)
        for fading in fadings:
            case, still, faded = f"{fading}, {scheduled} workers", (max_min, calm), (max_min, fading)
            yield table.compare("fig4", "Fig. 4b", restored, case, (random, calm), faded, below=1.0, of=" lost")
            yield table.compare("fig4", "Fig. 4b", unmoved, case, still, faded, above=-1.0, below=1.0, of=" lost")
