"""``airmix reproduce``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.markup import escape
from typer import Argument, Option

from airmixml.cli import options
from airmixml.cli.finished import show_study
from airmixml.cli.terminal import print_line, progress_bars, report_failures
from airmixml.errors import ScenarioError
from airmixml.output.tables import Table, terminal_table
from airmixml.wording import NOT_BY_QUICK, plural, quick_reproduction

if TYPE_CHECKING:
    from airmixml.reproduction import Reproduction

_VERDICTS = ("agrees", "trend agrees", "undecided", "does not follow")
_DECISIONS = {"holds": "green", "undecided": "yellow", "does not hold": "red"}


def reproduce_command(
    targets: Annotated[
        list[str] | None,
        Argument(help="table1, table2, fig2, fig3, fig4 or all [default with --quick: all].", show_default=False),
    ] = None,
    dataset: Annotated[str | None, Option(help="Reproduce only one half of the tables: iris or mnist.")] = None,
    seeds: Annotated[
        int | None, Option(help="Number of runs per cell, with seeds 0, 1, ... [default: 3; 4 with --quick].")
    ] = None,
    device: options.Device = "cpu",
    jobs: Annotated[
        int | None, Option(help="Number of processes [default: one per core; 1 with cuda; all of a Ray cluster].")
    ] = None,
    engine: Annotated[str, Option(help="Run on this machine (local) or on a Ray cluster (ray).")] = "local",
    out: options.Out = None,
    quick: Annotated[
        bool, Option("--quick", help="Decide what two cores can in 30 seconds: much of Iris; the rest is named.")
    ] = False,
    as_printed: Annotated[
        bool, Option("--as-printed", help="Leave out the other readings of rows that look misprinted.")
    ] = False,
    data_dir: options.DataDir = None,
    as_json: options.AsJson = False,
) -> None:
    """Reproduce the paper's tables and figures.

    Each value is compared with the printed one. Finished cells are kept: repeat the same command to resume.
    """
    if not targets and not quick:
        raise ScenarioError("give what to reproduce: table1, table2, fig2, fig3, fig4 or all")
    if engine not in ("local", "ray"):
        raise ScenarioError(f"--engine = {engine!r}: must be local or ray")
    processes = options.check_jobs(jobs)
    from airmixml.reproduction import Request, reproduce
    from airmixml.reproduction.paper_cells import QUICK_SEEDS

    seeds = (QUICK_SEEDS if quick else 3) if seeds is None else seeds
    request = Request(
        targets=tuple(targets or ("all",)),
        dataset=dataset,
        seeds=seeds,
        quick=quick,
        as_printed=as_printed,
        device=device,
    )
    folder = out or Path("runs") / ("reproduce-quick" if quick else "reproduce")
    with progress_bars() as progress:
        reproduction = reproduce(request, folder, jobs=processes, engine=engine, data_dir=data_dir, progress=progress)
    kept = f"{reproduction.kept_batches} of {plural(reproduction.batches, 'batch', 'es')}"
    show_study(
        as_json,
        {**reproduction.to_dict(), "failures": reproduction.failures},
        *_parts(reproduction),
        name="report",
        out=folder,
        write=lambda: reproduction.files,
        beside=reproduction.names,
        seconds=reproduction.seconds,
        kept=kept if reproduction.kept_batches else "",
    )
    if not as_json:
        print_line(f"pictures: {', '.join(str(path) for path in reproduction.files if path.suffix == '.png')}")
    if reproduction.failures:
        after = "the other cells are kept; the same command tries the failed ones again"
        report_failures(reproduction.failures, "more, see report.json", after)


def _parts(reproduction: Reproduction) -> Iterator[str | Table]:
    if reproduction.request.quick:
        yield f"{_counts(reproduction)}{quick_reproduction(reproduction.request.wanted)}"
    if rows := _verdict_rows(reproduction):
        yield terminal_table(("", *_VERDICTS), rows, title="Compared with the printed values")
    if ratios := reproduction.ratios:
        furthest = max(abs(each.squares / each.expected_squares - 1.0) for each in ratios)
        yield (
            f"Fig. 2 prints no values; drawn for {plural(len(ratios), 'alpha')}: the mean sum of squared ratios is "
            f"within {100 * furthest:.2g} % of what the Dirichlet distribution says."
        )
    if rows := _claim_rows(reproduction):
        title = "What the text claims, and in how many cases it holds"
        decisions = (*_DECISIONS, *(("not run",) if reproduction.request.quick else ()))
        yield terminal_table(("place", "the paper says", *decisions), rows, title=title, words=2)
    # A sentence of which some cases are decided stands above, with how many are not.
    begun = {(claim.place, claim.says) for claim in reproduction.claims if claim.decision != NOT_BY_QUICK}
    unrun = [claim for claim in reproduction.claims if claim.decision == NOT_BY_QUICK]
    left = [claim for claim in unrun if (claim.place, claim.says) not in begun]
    if left:
        sentences = dict.fromkeys((escape(claim.place), escape(claim.says), claim.evidence) for claim in left)
        columns = ("place", "the paper says", "decided by")
        yield terminal_table(columns, sentences, title=NOT_BY_QUICK.capitalize(), words=3)


def _counts(reproduction: Reproduction) -> str:
    """Return in how many cases the paper's text holds, as the table of claims adds up; empty where none was run."""
    found = Counter[str](claim.decision for claim in reproduction.claims)
    if not any(found[name] for name in _DECISIONS):
        return ""
    held, not_held = found["holds"], found["does not hold"]
    holds = f"{plural(held, 'claim')} {'holds' if held == 1 else 'hold'}"
    return f"{holds}, {not_held} {'does' if not_held == 1 else 'do'} not, {found['undecided']} undecided. "


def _verdict_rows(reproduction: Reproduction) -> list[tuple[str, ...]]:
    """Return how often each verdict was given: by table, reading and epoch."""
    counts: dict[str, Counter[str]] = {}
    for each in reproduction.results:
        cell, reading = each.cell, "read otherwise" if each.cell.reading else "as printed"
        verdicts = {"": each.verdict}
        if cell.quantity == "accuracy":
            verdicts = {", final epoch": each.verdict, ", best epoch": each.best_epoch_verdict}
        for epoch, verdict in verdicts.items() if cell.printed is not None else ():
            name = f"{cell.target} {cell.dataset}, {reading}{epoch}"
            counts.setdefault(name, Counter())[verdict.partition(" from")[0]] += 1
    return [(name, *(str(found[verdict]) for verdict in _VERDICTS)) for name, found in counts.items()]


def _claim_rows(reproduction: Reproduction) -> list[tuple[str, ...]]:
    """Return how often each sentence of the paper holds."""
    counts: dict[tuple[str, str], Counter[str]] = {}
    for claim in reproduction.claims:
        says = claim.says + (f" ({claim.light})" if claim.light else "")
        counts.setdefault((escape(claim.place), escape(says)), Counter())[claim.decision] += 1
    return [
        (
            *sentence,
            *(f"[{colour}]{found[name]}[/]" if found[name] else "" for name, colour in _DECISIONS.items()),
            *((str(found[NOT_BY_QUICK] or ""),) if reproduction.request.quick else ()),
        )
        for sentence, found in counts.items()
        if set(found) & set(_DECISIONS)
    ]
