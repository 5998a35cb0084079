"""What the cells gave: summaries over the seeds with their confidence, verdicts against print, and Fig. 2's ratios."""

import math
import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from airmixml.messages import power_of_ten
from airmixml.output.figures import new_figure, save_png_and_svg
from airmixml.output.tables import Table
from airmixml.radio.mixing import draw_ratios
from airmixml.randomness.slot_words import slot_words
from airmixml.reproduction.paper_cells import AS_PRINTED, Cell
from airmixml.scenario import Mixing
from airmixml.streams import Streams
from airmixml.sweeps import SweepResult

Verdict = Literal["agrees", "trend agrees", "does not follow from the stated settings", "undecided", ""]
VERDICTS_IN_WORDS: Final = """\
*Agrees*: the mean over the seeds is within 3 points of accuracy, or 5 % of energy, of the printed value. *Undecided*:
it is not, but the printed value lies inside the 95 % confidence interval of the mean. *Trend agrees*: the mean misses
the printed value by at most 15 points or a factor of 1.5, and clearly different entries of its row and column lie on
the printed side of it. Otherwise the value *does not follow from the stated settings*. A claim *holds* or *does not
hold* if the whole 95 % confidence interval of its paired difference says so.
"""
Decision = Literal["holds", "does not hold", "undecided", "not decided by --quick"]
_CONFIDENCE: Final = 0.95
_TOLERANCE: Final = {"accuracy": 3.0, "energy": 0.05}  # points, or share of the printed value
_CONCORDANT_SHARE: Final = 0.75
_FEWEST_PEERS: Final = 3
_ACCURACY_REACH_POINTS: Final = 15.0
_ENERGY_REACH_FACTOR: Final = 1.5
_ALPHAS: Final = (0.1, 1.0, 10.0, 100.0, 1e5)  # of Fig. 2
_WORKERS, _SLOTS, _SHOWN_SLOTS = 8, 20_000, 16  # of Fig. 2


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A mean with its 95 % confidence interval; the interval is the whole line where there is only one value."""

    mean: float
    low: float
    high: float

    def percent(self) -> str:
        return f"{self._in_words('.1f')} %"

    def points(self, what: str = "") -> str:
        """Return the interval in words: points of accuracy, and of what."""
        return "no seed could be compared" if math.isnan(self.mean) else f"{self._in_words('+.1f')} points{what}"

    def _in_words(self, digits: str) -> str:
        spread = "one seed" if math.isinf(self.high) else f"{self.low:{digits}} to {self.high:{digits}}"
        return f"{self.mean:{digits}} ({spread})"


def mean_interval(values: Sequence[float]) -> Interval:
    """Return the mean of the values with Student's confidence interval."""
    mean = float(np.mean(values)) if values else math.nan
    if len(values) < 2:
        return Interval(mean=mean, low=-math.inf, high=math.inf)
    # scipy.stats has both, and takes seconds to import.
    quantile = float(stdtrit(len(values) - 1, 0.5 + _CONFIDENCE / 2.0))
    half = quantile * float(np.std(values, ddof=1)) / math.sqrt(len(values))
    return Interval(mean=mean, low=mean - half, high=mean + half)


def decide(interval: Interval, *, above: float = -math.inf, below: float = math.inf) -> Decision:
    """Decide whether a mean lies strictly between two bounds, if its whole confidence interval says so."""
    if (above < interval.low or above == -math.inf) and (interval.high < below or below == math.inf):
        return "holds"
    return "does not hold" if interval.high < above or interval.low > below else "undecided"


@dataclass(frozen=True, kw_only=True)
class Summary:
    """One quantity over the seeds that could be run: accuracy in percent, energy in joules."""

    seeds: tuple[int, ...]
    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        return statistics.fmean(self.values)

    @property
    def deviation(self) -> float | None:
        return statistics.stdev(self.values) if len(self.values) > 1 else None

    def to_dict(self) -> dict[str, Any]:
        return {"mean": self.mean, "deviation": self.deviation, "seeds": list(self.seeds), "values": list(self.values)}


@dataclass(frozen=True, kw_only=True)
class CellResult:
    """A cell with what it gave."""

    cell: Cell
    measured: Summary | None = None  #: after the final epoch, or the energy; None if no seed could be run
    best_epoch: Summary | None = None  #: accuracy of the epoch that is best on the test set; it flatters
    #: accuracy after each epoch, mean over the seeds, in percent; and its standard deviation
    curve: tuple[tuple[float, float], ...] = ()
    errors: tuple[str, ...] = ()  #: what went wrong, by seed
    verdict: Verdict = ""
    best_epoch_verdict: Verdict = ""

    def difference(self, summary: Summary | None) -> float | None:
        """Return measured minus printed: points of accuracy, or the relative difference of energy."""
        return None if self.cell.printed is None or summary is None else self.cell.gap(summary.mean)

    def to_dict(self) -> dict[str, Any]:
        cell = self.cell
        return {
            "target": cell.target,
            "half": cell.dataset,
            "dataset": cell.scenario.workers.dataset,
            "row": cell.row,
            "column": cell.column,
            "reading": cell.reading or AS_PRINTED,
            "why": cell.why,
            "quantity": cell.quantity,
            "unit": "%" if cell.quantity == "accuracy" else "J",
            "scheduled": cell.scenario.radio.scheduled,
            "alpha": cell.scenario.mixing.alpha,
            "epsilon": cell.scenario.privacy.epsilon if cell.scenario.mixing.power_policy.keeps_target else None,
            "printed": cell.printed,
            "bold": cell.stands_out,
            "measured": self.measured.to_dict() if self.measured else None,
            "difference": self.difference(self.measured),
            "verdict": self.verdict,
            "best_epoch": self.best_epoch.to_dict() if self.best_epoch else None,
            "best_epoch_difference": self.difference(self.best_epoch),
            "best_epoch_verdict": self.best_epoch_verdict,
            # The curves of the figures; those of the tables are in the finished batches.
            "curve": [list(point) for point in self.curve] if cell.printed is None else [],
            "errors": list(self.errors),
        }


def summarise(cell: Cell, sweep: SweepResult, seeds: range) -> CellResult:
    """Gather what the seeds of a cell gave: accuracy of the final and of the best epoch, or energy."""
    outcomes = {seed: sweep.outcome(cell.kind.name, cell.scenario.with_seed(seed)) for seed in seeds}
    errors = tuple(f"seed {seed}: {found['error']}" for seed, found in outcomes.items() if "error" in found)
    given = {seed: found for seed, found in outcomes.items() if "error" not in found}
    if cell.quantity == "energy":
        spent = _over_seeds({seed: found["energy_joules"] for seed, found in given.items()})
        return CellResult(cell=cell, measured=spent, errors=errors)
    curves = {seed: [100.0 * accuracy for accuracy in found["curve"]] for seed, found in given.items()}
    return CellResult(
        cell=cell,
        measured=_over_seeds({seed: curve[-1] for seed, curve in curves.items()}),
        best_epoch=_over_seeds({seed: max(curve) for seed, curve in curves.items()}),
        curve=tuple(
            (statistics.fmean(epoch), statistics.stdev(epoch) if len(epoch) > 1 else 0.0)
            for epoch in zip(*curves.values(), strict=True)
        ),
        errors=errors,
    )


def _over_seeds(values: dict[int, float]) -> Summary | None:
    return Summary(seeds=tuple(values), values=tuple(values.values())) if values else None


def judge(results: Sequence[CellResult]) -> list[CellResult]:
    """Give each result its verdicts, which ``VERDICTS_IN_WORDS`` explains.

    For the trend three quarters of the cells in the same row (and number of workers), and as many of those in the same
    column, must lie on the printed side; only those count, and at least three are needed, whose printed values clearly
    differ from this one.
    """
    judged = []
    for result in results:
        peers = _peers(result, results)
        final, best = (_verdict(result, peers, quantity) for quantity in ("measured", "best_epoch"))
        judged.append(replace(result, verdict=final, best_epoch_verdict=best))
    return judged


def _peers(result: CellResult, results: Sequence[CellResult]) -> list[CellResult]:
    """Return the other cells of its row and column, each in the reading that goes with this one's."""
    cell = result.cell
    chosen: dict[tuple[str, ...], CellResult] = {}
    for other in results:
        same_table = other.cell.place[:2] == cell.place[:2] and other.cell.place != cell.place
        same_row = other.cell.row == cell.row and other.cell.scenario.radio.scheduled == cell.scenario.radio.scheduled
        if same_table and (same_row or other.cell.column == cell.column) and (cell.reading or not other.cell.reading):
            chosen[other.cell.place] = other  # the other reading comes after the printed one
    return list(chosen.values())


def _verdict(result: CellResult, peers: Sequence[CellResult], quantity: str) -> Verdict:
    cell, printed, summary = result.cell, result.cell.printed, getattr(result, quantity)
    if printed is None or summary is None:
        return ""
    if _is_near(summary.mean, cell):
        return "agrees"
    interval = mean_interval(summary.values)
    if interval.low <= printed <= interval.high:
        return "undecided"
    in_row = [peer for peer in peers if peer.cell.row == cell.row]
    in_column = [peer for peer in peers if peer.cell.row != cell.row]
    orders = [_in_order(cell, printed, summary.mean, group, quantity) for group in (in_row, in_column)]
    enough = sum(map(len, orders)) >= _FEWEST_PEERS
    right = all(sum(order) >= _CONCORDANT_SHARE * len(order) for order in orders)
    in_reach = abs(summary.mean - printed) <= _ACCURACY_REACH_POINTS
    if cell.quantity == "energy":
        in_reach = printed / _ENERGY_REACH_FACTOR <= summary.mean <= printed * _ENERGY_REACH_FACTOR
    trend = enough and right and in_reach
    return "trend agrees" if trend else "does not follow from the stated settings"


def _in_order(cell: Cell, printed: float, mean: float, peers: Sequence[CellResult], quantity: str) -> list[bool]:
    """Return, for each peer whose printed value clearly differs, whether it was measured on the printed side."""
    known = [(peer.cell.printed, getattr(peer, quantity)) for peer in peers]
    return [
        (theirs - printed) * (found.mean - mean) > 0.0
        for theirs, found in known
        if theirs is not None and found is not None and not _is_near(theirs, cell)
    ]


def _is_near(value: float, cell: Cell) -> bool:
    return abs(cell.gap(value)) <= _TOLERANCE[cell.quantity]


@dataclass(frozen=True, kw_only=True, eq=False)
class MixingRatios:
    """Fig. 2, how alpha spreads the mixing ratios: those drawn for one alpha."""

    alpha: float
    ratios: NDArray[np.float64]  #: q; slots x workers

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON, in the shape of a cell.

        The mean of sum q^2 is 1 where one worker sends alone and 1/workers where all share equally. The Dirichlet
        distribution has (1 + alpha/workers) / (1 + alpha).
        """
        workers, squares = self.ratios.shape[1], (self.ratios**2).sum(axis=1)
        largest = self.ratios.max(axis=1)
        return {
            "target": "fig2",
            "row": f"{workers} workers",
            "column": f"alpha = {self.alpha:g}",
            "alpha": self.alpha,
            "quantity": "mean of the sum of squared ratios",
            "printed": None,
            "measured": {"mean": float(squares.mean()), "largest_share": float(largest.mean())},
            "expected": (1.0 + self.alpha / workers) / (1.0 + self.alpha),
            "verdict": "",
        }


def draw_mixing_ratios() -> list[MixingRatios]:
    """Draw the ratios of many slots of eight workers for each alpha."""
    drawn = []
    for number, alpha in enumerate(_ALPHAS):
        mixing, source = Mixing(policy="dirmix", alpha=alpha), slot_words(Streams(number), "ratios")
        drawn.append(MixingRatios(alpha=alpha, ratios=draw_ratios(mixing, _WORKERS, range(_SLOTS), source).numpy()))
    return drawn


def ratio_cells(plain: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the entries of Fig. 2."""
    return [cell for cell in plain["cells"] if cell["target"] == "fig2"]


def ratios_table(cells: Sequence[dict[str, Any]]) -> Table:
    """Return Fig. 2 in numbers."""
    rows = tuple(
        (
            f"{cell['alpha']:g}",
            f"{cell['measured']['largest_share']:.3f}",
            f"{cell['measured']['mean']:.4f}",
            f"{cell['expected']:.4f}",
        )
        for cell in cells
    )
    return Table(
        title="Fig. 2, mixing ratios",
        note="Means over 20,000 slots of eight workers; expected: what the Dirichlet distribution says.",
        columns=("alpha", "largest ratio", "sum of squared ratios", "expected"),
        rows=rows,
    )


def draw_ratios_figure(drawn: Sequence[MixingRatios], stem: Path) -> list[Path]:
    """Fig. 2: each step is one slot, each colour one worker's share."""
    title = "Fig. 2: who is in a mixture? Each step is one slot, each colour one of its eight workers"
    figure = new_figure(11, 2.9, title)
    for axis, each in zip(figure.subplots(1, len(drawn), sharey=True), drawn, strict=True):
        axis.stackplot(np.arange(_SHOWN_SLOTS), each.ratios[:_SHOWN_SLOTS].T, step="mid")
        name = re.sub(r"10\^(\d+)", r"$10^{\1}$", f"α = {power_of_ten(each.alpha)}")
        axis.set_title(f"{name}\nmean largest share {each.ratios.max(axis=1).mean():.2f}", fontsize=10)
        axis.set(xticks=[], xlabel="slots", xlim=(0, _SHOWN_SLOTS - 1), ylim=(0, 1))
    figure.axes[0].set_ylabel("mixing ratio q")
    return save_png_and_svg(figure, stem)
