"""Verdicts and claims on results made by hand; quantiles of Student's distribution are those of a printed table."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import cache
from typing import Any

import pytest

from airmixml import Scenario
from airmixml.reproduction.paper_cells import Cell, Request, fig3_cells, fig4_cells, table_cells
from airmixml.reproduction.paper_claims import Claim, check_claims, check_some_claims
from airmixml.reproduction.verdicts import CellResult, Summary, judge, mean_interval, summarise
from airmixml.sweeps import SweepResult

AGREES, TREND, NOT_FOLLOWING = "agrees", "trend agrees", "does not follow from the stated settings"
UNDECIDED = "undecided"
BASE = Scenario.preset("paper-iris")

# t_{0.975} for 1, 2 and 4 degrees of freedom.
T1, T2, T4 = 12.706, 4.3027, 2.7764
# Half the interval of three values with the standard deviation 1.
HALF = T2 / math.sqrt(3)  # 2.484

Values = Sequence[float] | None


def summary(*values: float, seeds: Sequence[int] | None = None) -> Summary:
    return Summary(seeds=tuple(seeds or range(len(values))), values=values)


# --- Summaries --------------------------------------------------------------------------------------------------------


def test_mean_and_deviation_over_the_seeds() -> None:
    three = summary(1.0, 2.0, 4.0)
    assert three.mean == pytest.approx(7 / 3)
    assert three.deviation == pytest.approx(math.sqrt(7 / 3))  # (16 + 1 + 25) / 9 / 2
    assert summary(5.0).mean == 5.0
    assert summary(5.0).deviation is None
    assert summary(1.0, 3.0, seeds=[4, 7]).to_dict() == {
        "mean": 2.0,
        "deviation": pytest.approx(math.sqrt(2)),
        "seeds": [4, 7],
        "values": [1.0, 3.0],
    }


def accuracy_outcome(*curve: float) -> dict[str, Any]:
    return {"energy_joules": 1.0, "curve": curve}


def test_a_cell_is_summed_up_over_the_seeds_that_could_be_run() -> None:
    cell = Cell(target="table1", dataset="iris", row="r", column="c", quantity="accuracy", scenario=BASE)
    outcomes = [accuracy_outcome(0.5, 0.9, 0.7), {"error": "no luck"}, accuracy_outcome(0.3, 0.4, 0.6)]
    sweep = SweepResult(
        outcomes={("training", BASE.with_seed(seed)): outcome for seed, outcome in enumerate(outcomes)}, kept_batches=0
    )
    result = summarise(cell, sweep, range(3))
    assert result.errors == ("seed 1: no luck",)
    assert result.measured is not None
    assert result.best_epoch is not None
    assert result.measured.seeds == result.best_epoch.seeds == (0, 2)
    assert result.measured.values == pytest.approx((70.0, 60.0))
    assert result.best_epoch.values == pytest.approx((90.0, 60.0))
    means, deviations = zip(*result.curve, strict=True)
    assert means == pytest.approx((40.0, 65.0, 65.0))
    assert deviations == pytest.approx((20 / math.sqrt(2), 50 / math.sqrt(2), 10 / math.sqrt(2)))

    lone = summarise(cell, sweep, range(1))
    assert [deviation for _, deviation in lone.curve] == [0.0, 0.0, 0.0]

    lost = summarise(cell, sweep, range(1, 2))
    assert (lost.measured, lost.best_epoch, lost.curve) == (None, None, ())
    assert lost.errors == ("seed 1: no luck",)


def test_an_energy_is_summed_up_in_joules() -> None:
    cell = Cell(target="table2", dataset="iris", row="r", column="c", quantity="energy", scenario=BASE, printed=4e-6)
    sent = [{"energy_joules": (1 + 2 * seed) * 1e-6} for seed in range(2)]
    sweep = SweepResult(
        outcomes={("energy", BASE.with_seed(seed)): each for seed, each in enumerate(sent)}, kept_batches=0
    )
    result = summarise(cell, sweep, range(2))
    assert result.measured is not None
    assert result.measured.values == (1e-6, 3e-6)
    assert (result.best_epoch, result.curve, result.errors) == (None, (), ())
    assert result.difference(result.measured) == pytest.approx(-0.5)  # a share of print, not joules
    assert result.to_dict()["unit"] == "J"


# --- Verdicts ---------------------------------------------------------------------------------------------------------


def entry(
    row: str,
    column: str,
    printed: float | None,
    *values: float,
    quantity: str = "accuracy",
    scheduled: int = 4,
    best: Values = None,
    reading: str = "",
) -> CellResult:
    return CellResult(
        cell=Cell(
            target="table1" if quantity == "accuracy" else "table2",
            dataset="iris",
            row=row,
            column=column,
            quantity=quantity,  # type: ignore[arg-type]
            scenario=BASE.with_overrides(f"radio.scheduled={scheduled}"),
            printed=printed,
            reading=reading,
        ),
        measured=summary(*_twice(values)) if values else None,
        best_epoch=summary(*_twice(best)) if best else None,
    )


def _twice(values: Sequence[float]) -> Sequence[float]:
    """A lone value stands for two equal seeds: a verdict from one seed alone is another matter."""
    return values if len(values) > 1 else [*values, *values]


def verdict(*results: CellResult) -> str:
    """Return the verdict about the first."""
    return judge(results)[0].verdict


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((64.0,), AGREES),
        ((67.0,), AGREES),
        ((61.0,), AGREES),
        ((67.001,), NOT_FOLLOWING),
        ((60.999,), NOT_FOLLOWING),
        ((50.0, 78.0), AGREES),  # the mean counts, not the spread
        ((67.0, 67.0, 67.003), NOT_FOLLOWING),
    ],
)
def test_accuracies_agree_to_within_three_points(values: tuple[float, ...], expected: str) -> None:
    assert verdict(entry("r", "c", 64.0, *values)) == expected


@pytest.mark.parametrize("unit", [1.0, 2.0**-20])
@pytest.mark.parametrize(
    ("value", "expected"),
    [(20.0, AGREES), (21.0, AGREES), (19.0, AGREES), (21.001, NOT_FOLLOWING), (18.999, NOT_FOLLOWING)],
)
def test_energies_agree_to_within_five_percent_whatever_their_size(unit: float, value: float, expected: str) -> None:
    assert verdict(entry("r", "c", 20.0 * unit, value * unit, quantity="energy")) == expected


# An entry printed as 50 that is measured as 60; peers are (printed, measured) in its row or column.
@pytest.mark.parametrize(
    ("peers", "expected"),
    [
        ([(70.0, 61.0)] * 3, TREND),
        ([(70.0, 59.0)] * 3, NOT_FOLLOWING),
        ([(30.0, 59.0)] * 3, TREND),
        ([(30.0, 61.0)] * 3, NOT_FOLLOWING),
        ([(70.0, 60.0)] * 3, NOT_FOLLOWING),  # no difference is no order
        ([(70.0, 61.0), (80.0, 90.0), (20.0, 10.0)], TREND),
        ([(70.0, 61.0), (80.0, 90.0), (20.0, 10.0), (10.0, 99.0)], TREND),  # three of four
        ([(70.0, 61.0), (80.0, 90.0), (20.0, 99.0), (10.0, 99.0)], NOT_FOLLOWING),  # two of four
        ([(70.0, 61.0), (80.0, 90.0), (20.0, 99.0)], NOT_FOLLOWING),  # two of three
        ([(70.0, 61.0)] * 5 + [(20.0, 99.0)] * 2, NOT_FOLLOWING),  # five of seven
        ([(53.0, 10.0), (47.0, 99.0), *[(70.0, 80.0)] * 3], TREND),  # the first two are printed as good as equal
        ([(53.01, 10.0), *[(70.0, 80.0)] * 2], NOT_FOLLOWING),
        ([(70.0, 61.0), (80.0, 90.0)], NOT_FOLLOWING),  # two are never a trend
        ([(53.0, 61.0), (47.0, 59.0), *[(70.0, 80.0)] * 2], NOT_FOLLOWING),  # nor with others that are as good as equal
        ([(53.01, 61.0), *[(70.0, 80.0)] * 2], TREND),
        ([], NOT_FOLLOWING),
    ],
)
@pytest.mark.parametrize("along", ["row", "column"])
def test_the_trend_is_the_order_in_row_and_column(peers: list[tuple[float, float]], expected: str, along: str) -> None:
    others = [
        entry("r", f"c{number}", *peer) if along == "row" else entry(f"r{number}", "c", *peer)
        for number, peer in enumerate(peers)
    ]
    assert verdict(entry("r", "c", 50.0, 60.0), *others) == expected


def test_row_and_column_must_both_be_in_order_and_nothing_else_counts() -> None:
    odd = entry("r", "c", 50.0, 60.0, scheduled=4)
    row = [entry("r", "c1", 90.0, 91.0), entry("r", "c2", 10.0, 11.0), entry("r", "c3", 80.0, 81.0)]
    column = [entry("r1", "c", 90.0, 91.0), entry("r2", "c", 10.0, 11.0), entry("r3", "c", 80.0, 81.0)]
    wrong_in_row, wrong_in_column = entry("r", "c4", 90.0, 11.0), entry("r4", "c", 90.0, 11.0)
    assert verdict(odd, *row, *column) == TREND
    assert verdict(odd, *row, *column, wrong_in_row, wrong_in_column) == TREND  # three of four in each
    assert verdict(odd, *row[:2], *column, wrong_in_row) == NOT_FOLLOWING  # two of three in the row
    assert verdict(odd, *row, *column[:2], wrong_in_column) == NOT_FOLLOWING  # two of three in the column
    elsewhere = [
        entry("r1", "c1", 90.0, 11.0),
        entry("r", "c5", 90.0, 11.0, scheduled=8),  # the same row, but more workers
        entry("r", "c6", 90.0, 11.0, quantity="energy"),  # another table
        entry("r", "c7", None, 11.0),
        entry("r", "c8", 90.0),  # failed
    ]
    assert verdict(odd, *row, *column, *elsewhere) == TREND


def test_two_exchanged_entries_are_no_trend() -> None:
    """Table II, Iris, maximum power: 0.476 and 0.348 J in print where 0.350 and 0.480 J come out."""
    other_rows = [entry(f"epsilon = {n}", "c2", 1e-6 * n, 1e-6 * n, quantity="energy") for n in (1, 2, 3)]
    exchanged = [
        entry("max. power", "c2", 0.476, 0.350, quantity="energy"),
        entry("max. power", "c3", 0.348, 0.480, quantity="energy"),
        entry("max. power", "c1", 0.246, 0.248, quantity="energy"),
    ]
    assert verdict(*exchanged, *other_rows) == NOT_FOLLOWING


@pytest.mark.parametrize(
    ("quantity", "printed", "measured", "expected"),
    [
        ("accuracy", 50.0, 65.0, TREND),
        ("accuracy", 50.0, 35.0, TREND),
        ("accuracy", 50.0, 65.01, NOT_FOLLOWING),
        ("accuracy", 50.0, 34.99, NOT_FOLLOWING),
        ("energy", 60.0, 90.0, TREND),
        ("energy", 60.0, 40.0, TREND),
        ("energy", 60.0, 90.01, NOT_FOLLOWING),
        ("energy", 60.0, 39.99, NOT_FOLLOWING),
    ],
)
def test_a_trend_ends_fifteen_points_or_a_factor_of_one_and_a_half_away(
    quantity: str, printed: float, measured: float, expected: str
) -> None:
    peers = {"c1": 300.0, "c2": 200.0, "c3": 3.0}
    others = [entry("r", column, value, value, quantity=quantity) for column, value in peers.items()]
    assert verdict(entry("r", "c", printed, measured, quantity=quantity), *others) == expected


def test_print_that_is_near_is_relative_for_energies() -> None:
    odd = entry("r", "c", 100.0, 110.0, quantity="energy")
    others = [entry("r", f"c{number}", 150.0, 150.0, quantity="energy") for number in (1, 2)]
    assert verdict(odd, *others, entry("r", "c3", 105.0, 120.0, quantity="energy")) == NOT_FOLLOWING  # as good as equal
    assert verdict(odd, *others, entry("r", "c3", 106.0, 120.0, quantity="energy")) == TREND


def test_without_print_or_without_runs_there_is_no_verdict() -> None:
    judged = judge([entry("r", "c", None, 60.0, best=[70.0]), entry("r", "c1", 60.0), entry("r", "c2", 60.0, 60.0)])
    assert [(each.verdict, each.best_epoch_verdict) for each in judged] == [("", ""), ("", ""), (AGREES, "")]
    assert judged[0].difference(judged[0].measured) is None
    assert judged[1].difference(judged[1].measured) is None
    assert judged[2].difference(judged[2].measured) == 0.0


def test_the_best_epoch_has_a_verdict_of_its_own() -> None:
    first, second = judge(
        [entry("r", "c", 80.0, 50.0, best=[81.0]), entry("r", "c1", 50.0, 51.0, best=[90.0])],
    )
    assert (first.verdict, first.best_epoch_verdict) == (NOT_FOLLOWING, AGREES)
    # Printed below its neighbour; so is its final epoch not (51 > 50), but near print; its best epoch is out of reach.
    assert (second.verdict, second.best_epoch_verdict) == (AGREES, NOT_FOLLOWING)


def test_a_reading_is_compared_with_the_readings_beside_it() -> None:
    stated = [entry("r", "c", 50.0, 60.0), *(entry("r", f"c{number}", 90.0, 91.0) for number in (1, 2, 3))]
    reread = [
        entry("r", "c", 50.0, 60.0, reading="other"),
        entry("r", "c1", 90.0, 11.0, reading="other"),
    ]
    by_name = {(each.cell.column, each.cell.reading): each.verdict for each in judge(stated + reread)}
    assert by_name["c", ""] == TREND  # the reading of c1 does not concern it
    assert (
        by_name["c", "other"] == NOT_FOLLOWING
    )  # c1 read otherwise is wrong, the others have no reading: two of three


# Values, and what is printed just inside and just outside their interval; t quantiles of 12.706 and 4.3027.
@pytest.mark.parametrize(
    ("quantity", "unit", "values", "inside", "outside"),
    [
        ("accuracy", 1.0, (60.0, 70.0, 80.0), (45.2, 94.8), (45.1, 94.9)),  # 70 -+ 4.3027 x 10 / sqrt(3) = 24.842
        ("accuracy", 1.0, (56.0, 60.0, 64.0), (50.07, 69.93), (50.06, 69.94)),  # 60 -+ 4.3027 x 4 / sqrt(3) = 9.937
        ("accuracy", 1.0, (59.0, 61.0), (47.3, 72.7), (47.29, 72.71)),  # 60 -+ 12.706
        ("energy", 1.0, (6.0, 7.0, 8.0), (4.52, 9.48), (4.51, 9.49)),  # 7 -+ 4.3027 / sqrt(3) = 2.484
        ("energy", 2.0**-20, (6.0, 7.0, 8.0), (4.52, 9.48), (4.51, 9.49)),
    ],
)
def test_print_inside_the_confidence_interval_is_undecided(
    quantity: str,
    unit: float,
    values: tuple[float, ...],
    inside: tuple[float, float],
    outside: tuple[float, float],
) -> None:
    measured = [value * unit for value in values]
    for expected, prints in ((UNDECIDED, inside), (NOT_FOLLOWING, outside)):
        for printed in prints:
            assert verdict(entry("r", "c", printed * unit, *measured, quantity=quantity)) == expected, printed


def test_undecided_comes_before_the_trend_and_after_agreement() -> None:
    peers = [entry("r", f"c{number}", 90.0, 91.0) for number in range(3)]
    assert verdict(entry("r", "c", 50.06, 56.0, 60.0, 64.0), *peers) == TREND
    assert verdict(entry("r", "c", 50.07, 56.0, 60.0, 64.0), *peers) == UNDECIDED
    assert verdict(entry("r", "c", 57.0, 56.0, 60.0, 64.0), *peers) == AGREES
    (judged,) = judge([entry("r", "c", 50.0, 80.0, best=[52.0, 56.0, 60.0])])
    assert (judged.verdict, judged.best_epoch_verdict) == (NOT_FOLLOWING, UNDECIDED)


@pytest.mark.parametrize(
    ("value", "expected"), [(64.0, AGREES), (67.0, AGREES), (67.001, UNDECIDED), (75.0, UNDECIDED), (1.0, UNDECIDED)]
)
def test_one_seed_agrees_or_decides_nothing(value: float, expected: str) -> None:
    lone = replace(entry("r", "c", 64.0), measured=summary(value), best_epoch=summary(value))
    peers = [entry("r", f"c{number}", 90.0, 91.0, best=[91.0]) for number in range(3)]
    for others in ([], peers):
        judged = judge([lone, *others])[0]
        assert (judged.verdict, judged.best_epoch_verdict) == (expected, expected)


# --- Confidence intervals ---------------------------------------------------------------------------------------------


def test_intervals_are_those_of_student() -> None:
    three = mean_interval([1.0, 2.0, 3.0])
    assert (three.mean, three.low, three.high) == pytest.approx((2.0, 2 - HALF, 2 + HALF), abs=1e-4)
    assert three.points(" lost") == "+2.0 (-0.5 to +4.5) points lost"
    assert three.percent() == "2.0 (-0.5 to 4.5) %"
    two = mean_interval([1.0, 3.0])
    assert (two.low, two.high) == pytest.approx((2 - T1, 2 + T1), abs=1e-3)
    five = mean_interval([1.0, 2.0, 3.0, 4.0, 5.0])
    half = T4 * math.sqrt(2.5 / 5)
    assert (five.low, five.high) == pytest.approx((3 - half, 3 + half), abs=1e-4)
    assert mean_interval([-1.25]).points() == "-1.2 (one seed) points"
    assert mean_interval([88.0]).percent() == "88.0 (one seed) %"
    assert mean_interval([]).points(" lost") == "no seed could be compared"


# --- Claims -----------------------------------------------------------------------------------------------------------


def results_of(
    cells: Sequence[Cell],
    values: Callable[[Cell], Values],
    seeds: Callable[[Cell], Sequence[int] | None] = lambda _cell: None,
) -> list[CellResult]:
    """Return results with the values given; None: the cell failed."""
    found = []
    for cell in cells:
        given = values(cell)
        measured = None if given is None else summary(*given, seeds=seeds(cell))
        best = measured if cell.quantity == "accuracy" else None
        found.append(CellResult(cell=cell, measured=measured, best_epoch=best))
    return found


@cache
def cells_of(table: str, dataset: str = "iris") -> list[Cell]:
    return table_cells(table, dataset, Scenario.preset(f"paper-{dataset}"))


@cache
def curves_of(figure: str) -> list[Cell]:
    return {"fig3": fig3_cells, "fig4": fig4_cells}[figure](Scenario.preset("paper-mnist"))


def pick(claims: Sequence[Claim], says: str, case: str = "", light: str = "") -> Claim:
    """Return the one claim in this light whose sentence and case hold these words."""
    found = [claim for claim in claims if says in claim.says and case in claim.case and claim.light == light]
    assert len(found) == 1, found
    return found[0]


def fig3(values: Callable[[Cell], Values]) -> list[Claim]:
    return check_claims(results_of(curves_of("fig3"), values))


def fig4(values: Callable[[Cell], Values]) -> list[Claim]:
    return check_claims(results_of(curves_of("fig4"), values))


def plus(base: Sequence[float], gaps: Sequence[float]) -> tuple[float, ...]:
    return tuple(value + gap for value, gap in zip(base, gaps, strict=True))


# Accuracies that differ from seed to seed far more than the gaps do: only pairs can tell.
SEEDS = (40.0, 60.0, 80.0)
ZERO = (0.0, 0.0, 0.0)


def test_a_claim_as_plain_values() -> None:
    plain = asdict(fig3(lambda _cell: SEEDS)[0])
    assert plain.pop("compared") == len(SEEDS)
    assert set(plain) == {"place", "says", "case", "light", "decision", "evidence"}
    assert all(isinstance(value, str) for value in plain.values())
    assert plain["light"] == ""


# Gaps with standard deviation 1: the interval is the mean plus and minus 2.484.
@pytest.mark.parametrize(
    ("gaps", "decision", "evidence"),
    [
        ((3.0, 4.0, 5.0), "holds", "+4.0 (+1.5 to +6.5)"),
        ((1.5, 2.5, 3.5), "holds", "+2.5 (+0.0 to +5.0)"),
        ((1.4, 2.4, 3.4), "undecided", "+2.4 (-0.1 to +4.9)"),
        ((-3.4, -2.4, -1.4), "undecided", "-2.4 (-4.9 to +0.1)"),
        ((-3.5, -2.5, -1.5), "does not hold", "-2.5 (-5.0 to -0.0)"),
    ],
)
class TestSomethingIsLarger:
    """All claims that one mean lies above another are decided alike."""

    def test_fig3_dirmix_beats_equalmix(self, gaps: Sequence[float], decision: str, evidence: str) -> None:
        row = "n = 4, 8 workers"
        claims = fig3(lambda cell: plus(SEEDS, gaps if (cell.row, cell.column) == (row, "DirMix(5)") else ZERO))
        claim = pick(claims, "DirMix(5) beats EqualMix", row)
        assert (claim.place, claim.decision, claim.evidence) == ("Fig. 3", decision, f"{evidence} points")

    def test_fig3_nonmix_is_best(self, gaps: Sequence[float], decision: str, evidence: str) -> None:
        row = "n = 2, 8 workers"
        claims = fig3(lambda cell: plus(SEEDS, gaps if (cell.row, cell.column) == (row, "NonMix") else ZERO))
        claim = pick(claims, "without privacy constraints NonMix is best", f"against DirMix(5), {row}")
        assert (claim.place, claim.decision, claim.evidence) == ("Fig. 3", decision, f"{evidence} points ahead")

    @pytest.mark.parametrize("policy", ["NonMix", "EqualMix", "DirMix(5)"])
    def test_fig3_path_loss_lowers_accuracy(
        self, gaps: Sequence[float], decision: str, evidence: str, policy: str
    ) -> None:
        near = ("n = 2, 64 workers", policy)
        claims = fig3(lambda cell: plus(SEEDS, gaps if (cell.row, cell.column) == near else ZERO))
        claim = pick(claims, "a larger path-loss exponent lowers the accuracy", f"{policy}, 64 workers")
        assert (claim.decision, claim.evidence) == (decision, f"{evidence} points from n = 2 to n = 4")
        others = [each for each in claims if "larger path-loss exponent" in each.says and each is not claim]
        assert [each.evidence[:4] for each in others] == ["+0.0"] * 5

    def test_fig4a_fading_lowers_accuracy(self, gaps: Sequence[float], decision: str, evidence: str) -> None:
        claims = fig4(lambda cell: plus(SEEDS, gaps if cell.column == "no fading" else ZERO))
        for fading in ("Rician, K = 10", "Rician, K = 3", "Rician, K = 1", "Rayleigh"):
            for workers in ("64 workers", "8 workers"):
                claim = pick(claims, "fading lowers the accuracy", f"{fading}, {workers}")
                assert (claim.place, claim.decision) == ("Fig. 4a", decision)
                assert claim.evidence == f"{evidence} points lost"

    def test_fig4a_accuracy_becomes_poorer_with_k(self, gaps: Sequence[float], decision: str, evidence: str) -> None:
        random_k1 = ("random, 64 workers", "Rician, K = 1")
        claims = fig4(lambda cell: plus(SEEDS, gaps if (cell.row, cell.column) == random_k1 else ZERO))
        claim = pick(claims, "poorer as K increases", "64 workers")
        assert claim.case == "Rician, K = 1 against Rician, K = 10, 64 workers"
        assert (claim.decision, claim.evidence.startswith(evidence)) == (decision, True)

    def test_table1_entries_in_bold(self, gaps: Sequence[float], decision: str, evidence: str) -> None:
        """The rival is the best of the others: here alpha = 10, two points above alpha = 1."""

        def values(cell: Cell) -> Values:
            if cell.stands_out:
                return plus(SEEDS, gaps)
            return SEEDS if cell.column.endswith("alpha = 10") else plus(SEEDS, (-2, -2, -2))

        claims = check_claims(results_of(cells_of("table1"), values))
        claim = pick(claims, "entry in bold is the best", "epsilon = 10, 8 workers, alpha = 10^5")
        assert (claim.place, claim.decision) == ("Table I, iris", decision)
        assert claim.evidence == f"{evidence} points ahead of the next, alpha = 10"
        assert len([each for each in claims if "in bold" in each.says]) == 10

    @pytest.mark.parametrize(
        ("says", "rows", "larger", "smaller"),
        [
            ("under tight privacy a larger alpha", ("epsilon = 5", "epsilon = 10"), "10^5", "1"),
            ("under loose privacy a smaller alpha", ("epsilon = 10^4", "max. power"), "1", "10^5"),
        ],
    )
    def test_remark_2(
        self,
        gaps: Sequence[float],
        decision: str,
        evidence: str,
        says: str,
        rows: tuple[str, str],
        larger: str,
        smaller: str,
    ) -> None:
        """Over two rows and both numbers of workers: offsets -3, -1, +1, +3 that vanish in the mean."""
        offsets = {(rows[0], 4): -3.0, (rows[0], 8): -1.0, (rows[1], 4): 1.0, (rows[1], 8): 3.0}

        def values(cell: Cell) -> Values:
            alpha = cell.column.partition("alpha = ")[2]
            offset = offsets.get((cell.row, cell.scenario.radio.scheduled))
            if offset is None or alpha not in (larger, smaller):
                return (5.0, 95.0, 20.0)
            return plus(SEEDS, [gap + offset for gap in gaps]) if alpha == larger else SEEDS

        claim = pick(check_claims(results_of(cells_of("table1"), values)), says)
        assert claim.place == "Table I, iris, Remark 2"
        assert claim.case == f"largest against smallest alpha, {rows[0]} and {rows[1]}"
        assert (claim.decision, claim.evidence) == (decision, f"{evidence} points")


# NonMix ahead of DirMix(5) by less than 2 points; no fading ahead of fading under max-min by less than 1: one-sided.
@pytest.mark.parametrize(
    ("middle", "decision"),
    [(-0.5, "holds"), (-0.4, "undecided"), (4.4, "undecided"), (4.5, "does not hold")],
)
def test_fig3_dirmix_loses_less_than_two_points(middle: float, decision: str) -> None:
    row = "n = 2, 64 workers"
    gaps = (middle - 1, middle, middle + 1)
    claims = fig3(lambda cell: plus(SEEDS, gaps if (cell.row, cell.column) == (row, "NonMix") else ZERO))
    claim = pick(claims, "loses less than 2 points to NonMix", row)
    assert claim.decision == decision
    assert claim.evidence == f"{middle:+.1f} ({middle - HALF:+.1f} to {middle + HALF:+.1f}) points lost"


@pytest.mark.parametrize(
    ("middle", "decision"),
    [(-9.0, "holds"), (-1.5, "holds"), (-1.4, "undecided"), (3.4, "undecided"), (3.5, "does not hold")],
)
def test_fig4b_max_min_restores_the_accuracy_of_random_assignment_without_fading(middle: float, decision: str) -> None:
    gaps = {
        ("max-min, 8 workers", "Rayleigh"): (-middle - 1, -middle, -middle + 1),
        ("max-min, 8 workers", "no fading"): (7.0, 7.0, 7.0),  # which does not matter here
    }
    claims = fig4(lambda cell: plus(SEEDS, gaps.get((cell.row, cell.column), ZERO)))
    claim = pick(claims, "max-min assignment restores", "Rayleigh, 8 workers")
    assert claim.says == "max-min assignment restores the accuracy without fading (less than a point lost)"
    assert (claim.place, claim.decision) == ("Fig. 4b", decision)
    assert claim.evidence == f"{middle:+.1f} ({middle - HALF:+.1f} to {middle + HALF:+.1f}) points lost"


# Gaps with standard deviation 0.2: the interval is the mean plus and minus 0.497.
@pytest.mark.parametrize(
    ("middle", "decision"),
    [
        (0.0, "holds"),
        (0.50, "holds"),
        (-0.50, "holds"),
        (0.51, "undecided"),
        (-0.51, "undecided"),
        (1.49, "undecided"),
        (-1.49, "undecided"),
        (1.50, "does not hold"),
        (-1.50, "does not hold"),
    ],
)
def test_fig4b_fading_makes_no_difference_under_max_min(middle: float, decision: str) -> None:
    gaps = {
        ("max-min, 64 workers", "Rician, K = 3"): (-middle - 0.2, -middle, -middle + 0.2),
        ("random, 64 workers", "no fading"): (7.0, 7.0, 7.0),  # which does not matter here
    }
    claims = fig4(lambda cell: plus(SEEDS, gaps.get((cell.row, cell.column), ZERO)))
    claim = pick(claims, "fading makes no difference", "Rician, K = 3, 64 workers")
    assert claim.says == "with max-min assignment fading makes no difference (within a point)"
    assert (claim.place, claim.decision) == ("Fig. 4b", decision)
    assert claim.evidence == f"{middle:+.1f} ({middle - HALF / 5:+.1f} to {middle + HALF / 5:+.1f}) points lost"


def test_figures_have_a_claim_for_every_case() -> None:
    three, four = fig3(lambda _cell: SEEDS), fig4(lambda _cell: SEEDS)
    assert len(three) == 2 * 2 * 3 + 2 * 3  # workers x exponents x (beats, best, loses less), workers x policies
    assert len(four) == 2 * 4 + 2 + 2 * 4 * 2  # workers x fadings, K, workers x fadings x (restores, no difference)
    assert len({(claim.place, claim.says, claim.case) for claim in three + four}) == len(three) + len(four)


@pytest.mark.parametrize(
    ("middle", "decision"),
    [(94.5, "holds"), (94.4, "undecided"), (89.6, "undecided"), (89.5, "does not hold")],
)
def test_iris_at_epsilon_five_reaches_92_percent(middle: float, decision: str) -> None:
    def values(cell: Cell) -> Values:
        if cell.row != "epsilon = 5":
            return (99.0, 99.0, 99.0)
        return (middle - 1, middle, middle + 1) if cell.column == "4 workers, alpha = 10" else (30.0, 99.0, 31.0)

    claim = pick(check_claims(results_of(cells_of("table1"), values)), "Iris reaches 92 %")
    assert (claim.case, claim.decision) == ("4 workers, alpha = 10", decision)
    assert claim.evidence.startswith(f"{middle:.1f} ({middle - HALF:.1f} to {middle + HALF:.1f}) % after the final")


@pytest.mark.parametrize(
    ("highest", "decision", "evidence"),
    [
        (15.0, "holds", "0 of 18 runs end above 15 %, the best at 15.0 %"),
        (15.1, "does not hold", "1 of 18 runs end above 15 %, the best at 15.1 %"),
    ],
)
def test_mnist_at_epsilon_ten_stays_at_chance(highest: float, decision: str, evidence: str) -> None:
    def values(cell: Cell) -> Values:
        if cell.row != "epsilon = 10" or cell.reading:
            return (90.0, 90.0, 90.0)
        return (9.8, highest, 11.35) if cell.column == "128 workers, alpha = 10^7" else (9.8, 11.35, 11.35)

    claim = pick(check_claims(results_of(cells_of("table1", "mnist"), values)), "MNIST stays at chance")
    assert (claim.decision, claim.evidence) == (decision, evidence)


def test_without_print_nothing_is_said_about_mnist_at_chance() -> None:
    every = table_cells("table1", "mnist", Scenario.preset("digits"))
    cells = [replace(cell, printed=None, stands_out=False) for cell in every if not cell.reading]
    claims = check_claims(results_of(cells, lambda _cell: (90.0, 91.0, 92.0)))
    assert not [claim for claim in claims if "chance" in claim.says or "in bold" in claim.says]


def test_claims_that_rest_on_cells_left_out_are_not_decided_but_by_their_command() -> None:
    """Rows of Iris at epsilon 5 and 10 were run; the others, MNIST and the figures were not."""
    request = Request(targets=("all",), quick=True)
    run = results_of([cell for group in request.cell_groups() for cell in group], lambda _cell: (90.0, 91.0, 92.0))
    claims = check_some_claims(run, request.left_out())
    left = [claim for claim in claims if claim.decision == "not decided by --quick"]
    assert {claim.evidence for claim in left} == {cell.command for cell in request.left_out()}
    iris = {(claim.says, claim.case.partition(",")[0]) for claim in left if claim.evidence.endswith("iris")}
    assert iris == {
        ("the entry in bold is the best of its row", "epsilon = 10^2"),
        ("the entry in bold is the best of its row", "epsilon = 10^4"),
        ("the entry in bold is the best of its row", "max. power"),
        ("under loose privacy a smaller alpha is better", "largest against smallest alpha"),
    }
    decided = [claim for claim in claims if claim not in left]
    assert min(claim.compared for claim in decided) > 0
    assert {claim.place for claim in decided} == {
        *("Table I, iris", "Table I, iris, Remark 2", "Section IV-B", "Table II, iris")
    }
    whole = check_claims([*run, *(CellResult(cell=cell) for cell in request.left_out())])
    assert {(claim.place, claim.says) for claim in claims} == {(claim.place, claim.says) for claim in whole}


def test_energy_rises_with_alpha() -> None:
    def rising(cell: Cell) -> Values:
        return (cell.scenario.mixing.alpha, 3 * cell.scenario.mixing.alpha)

    def but_for_one(cell: Cell) -> Values:
        odd = (cell.row, cell.column) == ("epsilon = 10", "8 workers, alpha = 10^5")
        return (9.0, 30.0) if odd else rising(cell)  # the mean for alpha = 10 is 20, so this is 0.5 short

    cells = cells_of("table2")
    claim = pick(check_claims(results_of(cells, rising)), "smaller alpha spends less energy")
    assert (claim.place, claim.decision, claim.evidence) == (
        "Table II, iris",
        "holds",
        "10 of 10 rows rise with alpha",
    )
    claim = pick(check_claims(results_of(cells, but_for_one)), "smaller alpha spends less energy")
    assert (claim.decision, claim.evidence) == ("does not hold", "9 of 10 rows rise with alpha")


def test_other_readings_come_after_the_claims_as_printed_and_leave_them_alone() -> None:
    """As printed the bold entries of the row of 10^4 lose by 4 points; read otherwise they win by 4 and by 5."""

    def values(cell: Cell) -> Values:
        if cell.row != "epsilon = 10^4" or not cell.stands_out:
            return SEEDS
        if not cell.reading:
            return plus(SEEDS, (-3, -4, -5))
        return plus(SEEDS, (3, 4, 5) if cell.scenario.radio.scheduled == 8 else (4, 5, 6))

    stated = [cell for cell in cells_of("table1") if not cell.reading]
    as_printed = check_claims(results_of(stated, values))
    assert {claim.light for claim in as_printed} == {""}
    everything = check_claims(results_of(cells_of("table1"), values))
    assert everything[: len(as_printed)] == as_printed
    added = everything[len(as_printed) :]
    assert {claim.light for claim in added} == {"read otherwise"}  # the best epoch says nothing else here
    assert sorted(claim.case for claim in added) == [
        "epsilon = 10^4, 4 workers, alpha = 1",
        "epsilon = 10^4, 8 workers, alpha = 1",
        "largest against smallest alpha, epsilon = 10^4 and max. power",
    ]
    bold = "entry in bold"
    assert pick(as_printed, bold, "epsilon = 10^4, 8 workers").decision == "does not hold"
    reread = pick(added, bold, "epsilon = 10^4, 8 workers", "read otherwise")
    assert (reread.decision, reread.evidence.startswith("+4.0 (+1.5 to +6.5) points")) == ("holds", True)
    # Of its four entries two have gaps (3, 4, 5) and (4, 5, 6): mean gaps (1.75, 2.25, 2.75), half the interval.
    loose = pick(added, "under loose privacy", light="read otherwise")
    assert loose.evidence == f"+2.2 ({2.25 - HALF / 2:+.1f} to {2.25 + HALF / 2:+.1f}) points"


def test_claims_about_alpha_are_held_against_the_best_epoch_too() -> None:
    """Bold for 8 workers at epsilon = 5: 4 points behind after the last epoch, 4 ahead in the best; read otherwise 10^4
    changes as well, and differently in the best epoch."""
    five = ("epsilon = 5", "8 workers, alpha = 10^5")
    loose = ("epsilon = 10^4", "4 workers, alpha = 1")

    def final(cell: Cell) -> Values:
        place = (cell.row, cell.column)
        if place == five:
            return plus(SEEDS, (-3, -4, -5))
        return plus(SEEDS, (5, 6, 7)) if place == loose and cell.reading else SEEDS

    def best(cell: Cell) -> Values:
        place = (cell.row, cell.column)
        if place == five:
            return plus(SEEDS, (3, 4, 5))
        return plus(SEEDS, (7, 8, 9)) if place == loose and cell.reading else SEEDS

    cells = cells_of("table1")
    results = [
        replace(last, best_epoch=flattered.measured)
        for last, flattered in zip(results_of(cells, final), results_of(cells, best), strict=True)
    ]
    claims = check_claims(results)
    bold, remark = "entry in bold", "under tight privacy"
    assert pick(claims, bold, "epsilon = 5, 8 workers").decision == "does not hold"
    assert pick(claims, bold, "epsilon = 5, 8 workers", "best epoch").decision == "holds"
    # One of four entries: mean gaps (-0.75, -1, -1.25) and (0.75, 1, 1.25).
    quarter = HALF / 4
    assert pick(claims, remark).evidence == f"-1.0 ({-1 - quarter:+.1f} to {-1 + quarter:+.1f}) points"
    assert (
        pick(claims, remark, light="best epoch").evidence == f"+1.0 ({1 - quarter:+.1f} to {1 + quarter:+.1f}) points"
    )
    assert pick(claims, bold, "epsilon = 10^4, 4 workers").decision == "undecided"
    for light, lead in (
        ("read otherwise", "+6.0 (+3.5 to +8.5)"),
        ("read otherwise, best epoch", "+8.0 (+5.5 to +10.5)"),
    ):
        claim = pick(claims, bold, "epsilon = 10^4, 4 workers", light)
        assert (claim.decision, claim.evidence.startswith(f"{lead} points")) == ("holds", True)
    # What says the same in another light is not said again; and only claims about alpha in Table I are repeated.
    assert sorted((claim.light, claim.case.partition(",")[0]) for claim in claims if claim.light) == [
        ("best epoch", "epsilon = 5"),
        ("best epoch", "largest against smallest alpha"),
        ("read otherwise", "epsilon = 10^4"),
        ("read otherwise", "largest against smallest alpha"),
        ("read otherwise, best epoch", "epsilon = 10^4"),
        ("read otherwise, best epoch", "largest against smallest alpha"),
    ]


def test_two_cases_that_change_alike_are_both_told_in_another_light() -> None:
    """For 4 and for 8 workers the bold entry of 10^4 wins by the same margin when it is read otherwise."""

    def values(cell: Cell) -> Values:
        bold = cell.row == "epsilon = 10^4" and cell.stands_out and cell.reading
        return plus(SEEDS, (3, 4, 5) if bold else ZERO)

    claims = check_claims(results_of(cells_of("table1"), values))
    for workers in ("4 workers", "8 workers"):
        assert pick(claims, "entry in bold", f"epsilon = 10^4, {workers}", "read otherwise").decision == "holds"


# --- Few seeds, failed seeds, failed cells ----------------------------------------------------------------------------


def test_one_seed_decides_no_comparison() -> None:
    numbers = random.Random(7)
    claims = fig3(lambda _cell: [numbers.uniform(10, 99)]) + fig4(lambda _cell: [numbers.uniform(10, 99)])
    stated = [cell for cell in cells_of("table1") if not cell.reading]
    claims += check_claims(results_of(stated, lambda _cell: [numbers.uniform(10, 99)]))
    assert len(claims) == 18 + 26 + 10 + 2 + 1
    assert {claim.decision for claim in claims} == {"undecided"}
    assert all("(one seed)" in claim.evidence for claim in claims if "92 %" not in claim.says)


def test_seeds_are_paired_by_seed_not_by_position() -> None:
    """DirMix(5) lost seed 0, EqualMix seed 3: they share 1, 2 and 4, with gaps 3, 4, 5."""
    dirmix = {1: 60.0 + 3, 2: 80.0 + 4, 3: 20.0, 4: 30.0 + 5}
    equalmix = {0: 40.0, 1: 60.0, 2: 80.0, 4: 30.0}

    def given(cell: Cell) -> dict[int, float]:
        return {"DirMix(5)": dirmix, "EqualMix": equalmix}.get(cell.column, {9: 1.0})

    results = results_of(
        curves_of("fig3"),
        lambda cell: list(given(cell).values()),
        lambda cell: list(given(cell)),
    )
    claims = check_claims(results)
    claim = pick(claims, "beats EqualMix", "n = 2, 64 workers")
    assert (claim.decision, claim.evidence) == ("holds", "+4.0 (+1.5 to +6.5) points")
    claim = pick(claims, "loses less", "n = 2, 64 workers")
    assert (claim.decision, claim.evidence) == ("undecided", "no seed could be compared")


def test_remark_2_uses_the_seeds_that_all_its_rows_have() -> None:
    """The row of epsilon = 5 lost seed 0 for four workers: seeds 1 to 3 remain, with mean gaps 3, 4, 5."""

    def values(cell: Cell) -> Values:
        gaps = (90.0, 3.0, 4.0, 5.0) if cell.column.endswith("10^5") else (0.0, 0.0, 0.0, 0.0)
        whole = plus((10.0, 20.0, 30.0, 40.0), gaps)
        return whole[1:] if lost(cell) else whole

    def lost(cell: Cell) -> bool:
        return (cell.row, cell.column) == ("epsilon = 5", "4 workers, alpha = 10^5")

    claims = check_claims(
        results_of(cells_of("table1"), values, lambda cell: (1, 2, 3) if lost(cell) else (0, 1, 2, 3))
    )
    claim = pick(claims, "under tight privacy")
    assert (claim.decision, claim.evidence) == ("holds", "+4.0 (+1.5 to +6.5) points")


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_cells_that_failed_do_not_stop_the_others(share: float) -> None:
    cells = [
        *cells_of("table1"),
        *cells_of("table1", "mnist"),
        *cells_of("table2"),
        *curves_of("fig3"),
        *curves_of("fig4"),
    ]
    for seed in range(2):
        numbers = random.Random(seed)

        def values(_cell: Cell, numbers: random.Random = numbers) -> Values:
            return [numbers.uniform(1, 99) for _ in range(3)] if numbers.random() < share else None

        results = judge(results_of(cells, values))
        assert [bool(each.verdict) for each in results] == [
            each.measured is not None and each.cell.printed is not None for each in results
        ]
        claims = check_claims(results)
        assert all(claim.evidence for claim in claims)
        if share == 0.0:
            assert {claim.decision for claim in claims} == {"undecided"}


# --- What is not so yet -----------------------------------------------------------------------------------------------


def test_an_alpha_that_is_left_alone_proves_nothing_about_alpha() -> None:
    only_one = results_of(
        cells_of("table1"), lambda cell: (50.0, 60.0, 70.0) if cell.column.endswith("alpha = 10") else None
    )
    assert not [claim for claim in check_claims(only_one) if "alpha" in claim.says and claim.decision != "undecided"]
    energies = results_of(cells_of("table2"), lambda cell: (1.0,) if cell.column.endswith("alpha = 10") else None)
    assert not [claim for claim in check_claims(energies) if claim.decision == "holds"]


def test_remark_2_is_about_the_largest_alpha_even_where_it_failed() -> None:
    def values(cell: Cell) -> Values:
        return None if cell.column.endswith("10^5") else plus(SEEDS, (9, 9, 9) if "= 10" in cell.column else ZERO)

    claims = check_claims(results_of(cells_of("table1"), values))
    assert not [claim for claim in claims if "under tight" in claim.says and claim.decision != "undecided"]


def test_what_is_exactly_equal_is_not_better() -> None:
    """Runs that stay at chance all end at 11.35 %: then nothing is ahead of anything."""
    claims = check_claims(results_of(cells_of("table1", "mnist"), lambda _cell: (11.35, 11.35, 11.35)))
    claims += fig3(lambda _cell: (11.35, 11.35, 11.35))
    better = [claim for claim in claims if any(word in claim.says for word in ("best", "better", "beats", "lowers"))]
    assert len(better) == 8 + 2 + 4 + 4 + 6
    assert not [claim.case for claim in better if claim.decision == "holds"]
