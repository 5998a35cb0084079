"""What a report says of a run, of several seeds, and of a protected run: nothing that their files do not hold."""

from __future__ import annotations

import io
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any, Final

from airmixml.output.page import Card, Cards, Part, Picture, Rows
from airmixml.output.tables import Table
from airmixml.reading import read_regular
from airmixml.reports.cards import NOTHING, asked_for, cards_of
from airmixml.reports.content import PROTECTED, Content, Curve, picture_in, read_curve
from airmixml.reports.folders import FoundFolder, command_for, seeds_option
from airmixml.runs.results import Baselines, ProtectedResult, RunResult, SeedsResult, load_result, read_result
from airmixml.runs.run_rows import before_the_draw, plain_rows, row_epsilons, run_rows, run_title
from airmixml.scenario import Scenario
from airmixml.storage.files import corrupt_file
from airmixml.wording import NONE, against, duration, epsilon_text, sentence, unstated
from airmixml.workers.population import held_by, row_name

_RELEASABLE: Final = (
    "This page holds nothing but what the privacy statements below cover, and what was public before the run."
)
_STUDY: Final = "Some of the numbers and pictures below never saw noise: never release this page for real data."
_PICTURES: Final = {
    "overview": (
        "What was sent, received and learned",
        "Examples of slots as sent and as received, how well each class was learned or how learning went, and "
        "histograms of transmit power and of the received signal-to-noise ratio.",
    ),
    "privacy": (
        "Epsilon by accountant and adversary",
        "Epsilon that each accountant certifies against each adversary, on a logarithmic axis; the cards give the "
        "numbers.",
    ),
    "seeds": (
        "All seeds",
        "Accuracy and other results of every seed beside their mean; the tables give the numbers.",
    ),
}
_FINAL: Final = ", final epoch"
_SHOWN_COSTS: Final = {"energy per worker": "per worker", "on the air": "on the air"}
_LEDGER: Final = "Histogram of what each worker spent against the server (median {median}, worst {worst}); beside it: "


def run_content(found: FoundFolder, *, drawn: bool = False) -> Content:
    """Return what a run folder tells; ``drawn``: with the picture of its ledger."""
    result, scenario = read_result(found.path), found.scenario()
    metrics = result.to_dict()
    rows = {name: tuple(plain_rows(part)) for name, part in run_rows(scenario, metrics).items()}
    protected = isinstance(result, ProtectedResult)
    cards = cards_of(result.privacy, scenario, _more(scenario, metrics, rows["privacy"]))
    results = tuple(
        (name.removesuffix(_FINAL), f"{value}{_FINAL * name.endswith(_FINAL)}") for name, value in rows["scores"]
    )
    return Content(
        folder=found.path,
        kind=PROTECTED if protected else "run",
        title=run_title(scenario, metrics),
        notices=(sentence(rows["mode"][0][1]), _RELEASABLE if protected else _STUDY, *_warnings(rows["privacy"])),
        verdict=sentence(rows["verdict"][0][1]),
        headline=_headline(results, cards, dict(rows["radio"])),
        asked=(*rows["ran"], ("learner", scenario.learner.in_words), ("privacy target", asked_for(scenario))),
        results=results,
        costs=rows["radio"],
        cards=(Cards(title=scenario.title, cards=cards),),
        curves=_curves(found, result),
        tables=_of_classes(result.baselines),
        pictures=_pictures(found, result, metrics, drawn=drawn),
        scenario=scenario,
        command=_command(found.path, result, scenario),
        made_with=(*metrics["versions"].items(), ("device", result.device), ("time", duration(result.seconds))),
    )


def _of_classes(found: Baselines | None) -> tuple[Part, ...]:
    """Return how each class fared on the clean test set, and which are taken for which; counts of all seeds."""
    if found is None or not found.classes:
        return ()

    def percent(share: float | None) -> str:
        return NONE if share is None else f"{100 * share:.1f} %"

    each = [(one.name, f"{one.rows:,}", percent(one.recall), percent(one.precision)) for one in found.classes]
    tables: list[Part] = [
        Table(title="Each class", columns=("class", "test rows", "recall", "precision"), rows=tuple(each))
    ]
    if found.confusion:
        names = [one.name for one in found.classes]
        tables.append(
            Table(
                title="Confusion matrix: test rows by true class (down) and predicted class (across)",
                columns=("true class", *names),
                rows=tuple(
                    (name, *(f"{count:,}" for count in row)) for name, row in zip(names, found.confusion, strict=True)
                ),
            )
        )
    return tuple(tables)


def _headline(results: Rows, cards: Sequence[Card], costs: dict[str, str]) -> Rows:
    """Return how well it learnt, what is promised against the two that matter, and what a worker spends."""
    seen = [card for card in cards if card.is_target or card.adversary == "server"]
    told = []
    for card in seen:
        delta = dict(card.facts).get("delta", "").partition(":")[0]
        by = dict(card.details).get("accountant", "").partition(",")[0]
        epsilon = card.epsilon + (f" by {by}" if by else "") + (f", delta {delta}" if delta else "")
        told.append((f"epsilon {against(card.adversary)}", f"{epsilon} ({card.promise})"))
    shown = {name: costs[key] for name, key in _SHOWN_COSTS.items() if key in costs}
    return (*results[:1], *told, *shown.items())


def _warnings(rows: Rows) -> tuple[str, ...]:
    """Return what the rows say about the promise itself: rows without a name that follow it, before its details."""
    return tuple(sentence(value) for _, value in takewhile(lambda row: not row[0], rows[1:]))


def _more(scenario: Scenario, metrics: dict[str, Any], rows: Rows) -> dict[str, Rows]:
    """Return what is known of the median worker, and of a row of the data against each adversary, or why nothing is."""
    epsilons, copies = row_epsilons(metrics), metrics["row_copies"]
    name, held = row_name(scenario.workers, copies), held_by(scenario.workers, copies)
    median = tuple(("median worker", value) for name, value in rows if not name and "median worker" in value)
    more: dict[str, Rows] = {whom: (("why", unstated(why)),) for whom, why in (metrics.get("unstated") or {}).items()}
    more["server"] = median
    for adversary in (each["adversary"] for each in metrics["privacy"]) if name and epsilons else ():
        known = adversary in epsilons
        before = before_the_draw(metrics, adversary)
        said = f"epsilon {epsilon_text(epsilons[adversary])}{before}, {held}" if known else f"{NOTHING}, {held}"
        more[adversary] = (*(median if adversary == "server" else ()), (name, said))
    return more


def _curves(found: FoundFolder, result: Any) -> tuple[Curve, ...]:
    """Return the curve of the run, or of each seed; of several protected releases none speaks for all."""
    if isinstance(result, SeedsResult):
        folders = {f"seed {run.seed}": found.path / f"seed-{run.seed}" for run in result.runs}
    else:
        folders = {result.name: found.path}
    curves = [read_curve(folder, label) for label, folder in folders.items()]
    return tuple(curve for curve in curves if curve is not None)


def _pictures(found: FoundFolder, result: Any, metrics: dict[str, Any], *, drawn: bool) -> tuple[Picture, ...]:
    """Return the pictures of the folder, and where asked for one that is drawn from its ledger."""
    told = {name: told for name, told in _PICTURES.items() if name == "privacy" or "ledger" in metrics}
    pictures: list[Picture] = []
    for name, (caption, about) in told.items():
        shows = about
        if name == "privacy" and "ledger" in metrics:
            spent = {key: f"epsilon {epsilon_text(metrics['ledger'][f'{key}_epsilon'])}" for key in ("median", "worst")}
            shows = f"{_LEDGER.format(**spent)}{about[0].lower()}{about[1:]}"
        there = picture_in(found.path, f"figures/{name}.png", caption, shows)
        pictures += there
        ledger = found.path / "ledger.npz"
        if drawn and not there and name == "privacy" and isinstance(result, RunResult) and ledger.is_file():
            content = _drawn_ledger(ledger, result)
            pictures.append(Picture(caption=caption, shows=shows, content=content, file=f"{name}.png"))
    return tuple(pictures)


def _drawn_ledger(path: Path, result: RunResult) -> bytes:
    """Return the picture of what each worker spent."""
    import numpy as np

    from airmixml.output.figures import figure_bytes
    from airmixml.runs.score_pictures import draw_ledger

    try:
        with np.load(io.BytesIO(read_regular(path)), allow_pickle=False) as arrays:
            epsilons = arrays["epsilon"].astype(np.float64)
        if epsilons.ndim != 1 or not len(epsilons) or np.isnan(epsilons).any():
            raise ValueError("it must hold the epsilon of each worker")
    except Exception as problem:  # zipfile, zlib and NumPy raise a dozen unrelated types on broken bytes
        raise corrupt_file(path, problem, delete=f"the folder {path.parent}") from None
    stated = [each for each in result.privacy if each.adjacency == result.privacy[0].adjacency]
    return figure_bytes(draw_ledger(epsilons, stated), "png")


def _command(folder: Path, result: RunResult | SeedsResult | ProtectedResult, scenario: Scenario) -> tuple[str, ...]:
    options: tuple[str, ...] = ()
    if isinstance(result, SeedsResult):
        options = seeds_option(len(result.runs))
    elif isinstance(result, ProtectedResult):
        each = result if result.releases == 1 else load_result(folder / f"seed-{result.seed}")
        tested = each.accuracy is not None or each.scores
        options = ("--private", *(("--public-test",) if tested else ()), *seeds_option(result.releases))
    device = () if result.device == "cpu" else ("--device", result.device)
    return command_for("run", scenario, *options, *device)
