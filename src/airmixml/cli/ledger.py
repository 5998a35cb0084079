"""``airmix ledger``: budgets that last over runs and mechanisms."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from typer import Argument, Option

from airmixml.budgets import LedgerFile, Loss, People, Request
from airmixml.budgets.file import MOST_WORKERS
from airmixml.cli import options
from airmixml.cli.terminal import progress_bars, show
from airmixml.files import write_text, writing_to
from airmixml.messages import LedgerError, ScenarioError, epsilon_text, hide_values, plural, shown, shown_name
from airmixml.output.tables import Table, rows_csv
from airmixml.registries import ADVERSARIES
from airmixml.scenario.rules import Real, Whole
from airmixml.scenario.toml import rule_of

app = options.command_group("Keep what each worker has spent over all runs, and refuse what would pass a budget.")

_LONGEST_NUMBER = 20  # digits
Ledger = Annotated[Path, Argument(metavar="LEDGER", help="File of the ledger (SQLite).", show_default=False)]
Number = Annotated[int, Argument(help="Number of the entry; see `airmix ledger history`.", show_default=False)]


@app.command("create")
def create_ledger(
    ledger: Ledger,
    epsilon: Annotated[float, Option(help="Epsilon that no worker may exceed over all runs.")],
    delta: Annotated[float, Option(help="Delta of that budget.")],
    adversary: Annotated[
        list[str] | None,
        Option(help=f"Keep a budget against {options.choices(ADVERSARIES)}; may be repeated [default: server]."),
    ] = None,
    adjacency: Annotated[str, Option(help="Neighbours: replace-one or remove-one.")] = "remove-one",
    simulation: Annotated[
        bool, Option("--simulation", help="For simulations, which spend nothing of real budgets.")
    ] = False,
    people: Annotated[str, Option(help="What the workers are [default: the first run says so].")] = "",
    workers: Annotated[int, Option(help="With --people: number of workers (0: they have names).")] = 0,
    strict_names: Annotated[
        bool, Option("--strict-names", help="Refuse new names that look like one that is there, such as Ann and ann.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Create a ledger; it never replaces a file."""
    adversaries = adversary or ["server"]
    for name in adversaries:
        rule_of("privacy.adversary").check("--adversary", name)
    if not 0 <= workers <= MOST_WORKERS or (workers and not people):
        rule = f"must be from 0 to {MOST_WORKERS:,}, with --people to say what they are"
        raise ScenarioError(f"--workers {shown(workers)}: {rule}")
    made = LedgerFile.create(
        ledger,
        epsilon=epsilon,
        delta=delta,
        adversaries=adversaries,
        adjacency=adjacency,
        mode="simulation" if simulation else "protection",
        people=People(label=people, count=workers) if people else None,
        strict_names=strict_names,
    )
    whom = f"each worker against {' and '.join(adversaries)}, {adjacency}"
    made_for = f"epsilon {epsilon:g}, delta {delta:g} for {whom}"
    show(as_json, {"ledger": str(ledger), **made.plain_facts()}, f"{ledger}: {made_for}")


@app.command("show")
def show_ledger(
    ledger: Ledger,
    top: Annotated[int, Option(help="Number of workers to list, the fullest first.")] = 10,
    as_json: options.AsJson = False,
) -> None:
    """Show the fullest workers: what each has spent and what is left, against each adversary."""
    Whole().check("--top", top)
    file = LedgerFile(ledger)
    facts = file.plain_facts()
    found = [each.summary(top) for each in file.standings()]
    open_entries = sum(entry.state == "reserved" for entry in file.entries())
    people = facts["people"] or "nobody yet: the first run says who"
    parts: list[str | Table] = [f"{ledger}: {people}; {facts['mode']}, {facts['adjacency']} neighbours"]
    for each in found:
        rows = []
        for line in each["fullest"]:
            spent = "delta used up" if line["spent"] is None else f"{line['spent']:.4g}"
            rows.append((line["worker"], spent, f"{line['left']:.4g}"))
        title = f"against {each['adversary']}: epsilon {each['epsilon']:g}, delta {each['delta']:g}"
        parts.append(Table(title=title, columns=("fullest workers", "spent", "left"), rows=rows))
        if each["over_budget"]:
            parts.append(f"{plural(each['over_budget'], 'worker')} beyond the budget")
    if open_entries:
        parts.append(f"{plural(open_entries, 'reservation')} open, counted in full: airmix ledger history {ledger}")
    show(as_json, {"ledger": str(ledger), **facts, "adversaries": found, "reserved_entries": open_entries}, *parts)


@app.command("history")
def show_history(ledger: Ledger, as_json: options.AsJson = False) -> None:
    """List what was reserved, spent and released, oldest first."""
    entries = LedgerFile(ledger).entries()
    rows = [
        (
            str(each.number),
            each.state,
            each.about,
            each.reserved_at[:19].replace("T", " "),
            "all" if each.workers is None else f"{each.workers:,}",
            "; ".join(_loss_in_words(name, parts) for name, parts in each.largest.items()),
            each.reason,
        )
        for each in entries
    ]
    columns = ("entry", "state", "what", "UTC", "workers", "largest loss", "reason")
    table = Table(title=str(ledger), columns=columns, rows=rows, words=len(columns))
    show(as_json, {"ledger": str(ledger), "entries": [asdict(each) for each in entries]}, table)


def _loss_in_words(adversary: str, parts: dict[str, float]) -> str:
    said = f"mu^2 {parts['squared_mu']:.4g}" if parts["squared_mu"] else ""
    if parts["epsilon"] or parts["delta"]:
        said += f"{', ' if said else ''}({epsilon_text(parts['epsilon'])}, {parts['delta']:.3g})"
    return f"{adversary} {said or '0'}"


@app.command("spend")
def spend(
    ledger: Ledger,
    about: Annotated[str, Option(help="What the mechanism is, for the history.")],
    mu: Annotated[float | None, Option(help="Of a Gaussian mechanism: shift over standard deviation.")] = None,
    epsilon: Annotated[float | None, Option(help="Of any other mechanism; composes by basic composition.")] = None,
    delta: Annotated[float, Option(help="With --epsilon: its delta.")] = 0.0,
    adversary: Annotated[str | None, Option(help="Against whom that holds [default: the ledger's only one].")] = None,
    worker: Annotated[
        list[str] | None, Option("--worker", help="Worker that takes part; may be repeated [default: all].")
    ] = None,
    already_sent: Annotated[
        bool, Option("--already-sent", help="It has happened: count it even if it passes a budget.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Record a mechanism outside of airmixml; refuse it if it would pass a worker's budget."""
    if (mu is None) == (epsilon is None):
        raise ScenarioError("give either --mu for a Gaussian mechanism, or --epsilon and --delta for any other")
    if mu is not None and delta:
        raise ScenarioError("--delta: goes with --epsilon; a Gaussian mechanism has --mu alone")
    if mu is None:
        loss = Loss.of(epsilon=epsilon or 0.0, delta=delta)
    else:
        loss = Loss.of(squared_mu=np.nextafter(Real(low=0, high=1e100).check("--mu", mu) ** 2, np.inf))
    file = LedgerFile(ledger)
    facts = file.facts()
    people, budgets = facts["people"], facts["budgets"]
    if people is None:
        raise LedgerError(f"{ledger}: nobody is in it yet; create it with --people, or run with --ledger first")
    if adversary is None and len(budgets) > 1:
        raise ScenarioError(f"--adversary: missing; the ledger keeps budgets against {', '.join(budgets)}")
    against = adversary or next(iter(budgets))
    request = Request(about=about, losses={against: loss}, who=_chosen(file, people, worker), delta=delta)
    (number,) = file.reserve([request], people, already_sent=already_sent)
    if not already_sent:
        file.settle(number)
    _show_state(as_json, ledger, number, "spent")


def _chosen(file: LedgerFile, people: People, workers: list[str] | None) -> Any:
    if people.named:
        return tuple(workers) if workers else file.standings()[0].names
    for each in workers or ():
        if not (each.strip().isdecimal() and len(each) < _LONGEST_NUMBER and int(each) < people.count):
            known = f"from 0 to {people.count - 1:,}: this ledger knows its workers by number"
            raise ScenarioError(f"--worker {shown_name(each)}: must be a number {known}")
    return np.array(list(map(int, workers)), dtype=np.int64) if workers else None


@app.command("check")
@options.with_groups
def check_scenario(
    ledger: Ledger,
    chosen: options.Chosen,
    seed: options.Seed = None,
    seeds: options.Seeds = 1,
    public_test: Annotated[bool, Option("--public-test", help="As for airmix run --private.")] = False,
    data_dir: options.DataDir = None,
    show_values: options.ShowValues = False,
    as_json: options.AsJson = False,
) -> None:
    """Say whether runs of a scenario would fit; the ledger stays as it is, and nothing is sent.

    A run that would not fit is refused with the line that airmix run gives.
    """
    private = LedgerFile(ledger).facts()["mode"] == "protection"

    def check() -> Any:
        scenario = chosen.settled(seed, data_dir=data_dir, test_rows=public_test or not private)
        if private:
            from airmixml.workers.loading import check_protectable

            check_protectable(scenario.workers)
        with progress_bars() as progress:
            from airmixml.runs.spending import plan_spending

            plan_spending(
                scenario, seeds, ledger, private=private, public_test=public_test, data_dir=data_dir, progress=progress
            ).check()
        return scenario

    scenario = hide_values(check, "the owner sees them with --show-values", hide=private and not show_values)
    about = {"ledger": str(ledger), "fits": True, "scenario": scenario.name, "runs": seeds}
    show(as_json, about, f"{plural(seeds, 'run')} of {scenario.name} fits" if seeds == 1 else f"{seeds} runs fit")


@app.command("settle")
def settle(
    ledger: Ledger,
    number: Number,
    reason: Annotated[str, Option(help="Why, for the history.")],
    as_json: options.AsJson = False,
) -> None:
    """Count a reservation as spent: a run that died had sent something."""
    LedgerFile(ledger).settle(number, reason=reason)
    _show_state(as_json, ledger, number, "spent")


@app.command("release")
def release(
    ledger: Ledger,
    number: Number,
    reason: Annotated[str, Option(help="Why nothing of it was sent, for the history.")],
    as_json: options.AsJson = False,
) -> None:
    """Give a reservation back: nothing of that run was sent."""
    LedgerFile(ledger).release(number, reason=reason)
    _show_state(as_json, ledger, number, "released")


def _show_state(as_json: bool, ledger: Path, number: int, state: str) -> None:
    show(as_json, {"ledger": str(ledger), "entry": number, "state": state}, f"entry {number}: {state}")


@app.command("export")
def export(
    ledger: Ledger,
    out: Annotated[Path, Option(help="File to write: .csv or .json.")],
    as_json: options.AsJson = False,
) -> None:
    """Write what every worker has spent, as CSV, or with the history as JSON."""
    if out.suffix.lower() not in (".csv", ".json"):
        raise ScenarioError(f"--out {out}: must end in .csv or .json")
    file = LedgerFile(ledger)
    rows = [row for each in file.standings() for row in each.rows()]
    if not rows:
        raise LedgerError(f"{ledger}: nobody is in it yet; there is nothing to export")
    if out.suffix.lower() == ".csv":
        text = rows_csv(rows)
    else:
        entries = [asdict(each) for each in file.entries()]
        whole = {**file.plain_facts(), "workers": rows, "entries": entries}
        text = json.dumps(whole, indent=1, allow_nan=False) + "\n"
    with writing_to(out):
        write_text(out, text)
    show(as_json, {"ledger": str(ledger), "out": str(out), "rows": len(rows)}, f"{out}: {plural(len(rows), 'row')}")
