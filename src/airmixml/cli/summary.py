"""The table at the end of a run."""

from typing import Any

from rich.markup import escape
from rich.table import Table

from airmixml.output.numbers import joules
from airmixml.scenario import Scenario
from airmixml.workers import sends_inputs_unchanged

Rows = list[tuple[str, str]]

_NO_PROTECTION_ABOVE_EPSILON = 50.0
_POLICY_NAMES = {"dirmix": "DirMix", "nonmix": "NonMix", "equalmix": "EqualMix"}


def run_table(scenario: Scenario, metrics: dict[str, Any]) -> Table:
    """Return the accuracy, privacy and cost of a run as a table of two columns."""
    runs = metrics.get("runs", [])
    title = f"{escape(scenario.name)}, " + (f"mean of {len(runs)} seeds" if runs else f"seed {scenario.seed}")
    table = Table(title=title, show_header=False, title_justify="left", title_style="bold")
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(overflow="fold")
    parts = (
        _what_ran(scenario, metrics),
        _accuracy(scenario, metrics),
        _privacy(scenario, metrics),
        _radio(scenario, metrics),
        _folder(metrics),
    )
    for rows in parts:
        for name, value in rows:
            table.add_row(name, value)
        table.add_section()
    return table


def _what_ran(scenario: Scenario, metrics: dict[str, Any]) -> Rows:
    dataset, mixing = metrics["dataset"], scenario.mixing
    alpha = f"(alpha = {mixing.alpha:g})" if mixing.policy == "dirmix" else ""
    rows = [
        ("data", f"{escape(dataset['name'])}: {dataset['input_dim']} inputs, {dataset['label_dim']} classes"),
        *_what_is_sent(scenario),
        ("workers", _who_sends(scenario)),
        ("mixing", _POLICY_NAMES[mixing.policy] + alpha),
    ]
    if metrics["clipped_values"]:
        rows.append(("clipped", f"{metrics['clipped_values']:,} input values outside the declared bounds"))
    if metrics["clipped_samples"]:
        norm = scenario.workers.clip_norm
        hint = (
            "" if scenario.privacy.sensitivity == "encoder" else "; to gain from it set privacy.sensitivity = encoder"
        )
        rows.append(("clipped", f"{metrics['clipped_samples']:,} samples, to the norm {norm:g}{hint}"))
    return rows


def _what_is_sent(scenario: Scenario) -> Rows:
    workers = scenario.workers
    if sends_inputs_unchanged(workers):
        return []
    centre = "" if workers.centre == "none" else f", centre {workers.centre}"
    rounded = f", {workers.bits} bits per symbol" if workers.bits else ""
    weight = f"label weight {workers.label_weight:g}"
    return [("sent", f"{workers.sends} of {workers.encoder}{centre}, norm {workers.clip_norm:g}, {weight}{rounded}")]


def _who_sends(scenario: Scenario) -> str:
    radio = scenario.radio
    at_a_time = f"{radio.scheduled:,} at a time"
    if radio.schedule == "poisson":
        at_a_time += " on average"
    return f"{scenario.workers.count:,}, {at_a_time} in {radio.slots:,} slot{'' if radio.slots == 1 else 's'}"


def _accuracy(scenario: Scenario, metrics: dict[str, Any]) -> Rows:
    accuracy = metrics["accuracy"]

    def percent(name: str) -> str:
        deviation = accuracy.get(f"{name}_deviation")
        return f"{100 * accuracy[name]:.1f}" + ("" if deviation is None else f" ± {100 * deviation:.1f}") + " %"

    if scenario.learner.closed_form:
        solved = f"{scenario.learner.model}, closed form"
        return [("accuracy", f"[bold]{percent('final')}[/bold] on the clean test set ({solved})")]
    best_epoch = f"epoch {accuracy['best_epoch']}, " if "best_epoch" in accuracy else ""
    return [
        ("accuracy, final epoch", f"[bold]{percent('final')}[/bold] on the clean test set"),
        ("accuracy, best epoch", f"{percent('best')} ({best_epoch}chosen on the test set)"),
    ]


def _privacy(scenario: Scenario, metrics: dict[str, Any]) -> Rows:
    own, server = metrics["privacy"][0], _statement(metrics, "server", "gdp")
    target = own["target_epsilon"]
    asked = "no target" if target is None else f"target {target:g}"
    rows = [
        ("privacy", f"[bold]epsilon {own['epsilon']:.4g}, delta {own['delta']:g}[/bold] per worker ({asked})"),
        ("  against", f"{own['adversary']}: knows {own['knows']}"),
        ("  accountant", f"{own['accountant']}, sensitivity {own['sensitivity']:g}, {own['adjacency']} neighbours"),
        ("  sampling", _sampling(own["sampling_rate"], scenario.sampling_rate, own["why"])),
        ("  noise", f"{own['noise_watts_per_symbol']:.3g} W per symbol at that adversary's receiver"),
        ("  against the server", f"[bold]epsilon {server['epsilon']:.4g}[/bold] for the worst worker, exact (gdp)"),
        ("", _why_the_server_knows(scenario, server["compositions"])),
        ("", f"epsilon {metrics['ledger']['median_epsilon']:.4g} for the median worker"),
    ]
    if target is not None and own["epsilon"] > target * (1.0 + 1e-9):
        rows.insert(1, ("", "[bold red]target missed[/bold red]"))
    if own["epsilon"] > _NO_PROTECTION_ABOVE_EPSILON:
        rows.insert(1, ("", "[bold red]an epsilon this large protects nobody[/bold red]"))
    return rows + _other_neighbours(metrics) + _others(metrics)


def _why_the_server_knows(scenario: Scenario, slots: int) -> str:
    used = "slot" if slots == 1 else f"{slots:,} slots"
    known = f"the server knows which {used} this worker used"
    if scenario.workers.centre == "private":
        return f"{known}, and the mean, which took {100 * scenario.workers.centre_share:g} % of epsilon and delta"
    return known


def _other_neighbours(metrics: dict[str, Any]) -> Rows:
    """Return the epsilons of the same run for the other kind of neighbours."""
    own = metrics["privacy"][0]["adjacency"]
    others = [statement for statement in metrics["privacy"] if statement["adjacency"] != own]
    said = [f"{other['epsilon']:.4g} ({other['adversary']}, {other['accountant']})" for other in others]
    return [(f"  {others[0]['adjacency']}", f"epsilon {', '.join(said)}")] if others else []


def _others(metrics: dict[str, Any]) -> Rows:
    """Return the epsilons of the other accountants and adversaries for the same run."""
    by_adversary: dict[str, list[str]] = {}
    own = metrics["privacy"][0]["adjacency"]
    for statement in metrics["privacy"][1:]:
        exact = (statement["adversary"], statement["accountant"]) == ("server", "gdp")
        if statement["adjacency"] == own and not exact:
            said = f"{statement['accountant']} {statement['epsilon']:.4g}"
            by_adversary.setdefault(statement["adversary"], []).append(said)
    rows = [("other accountants", "")] if by_adversary else []
    return rows + [(f"  {adversary}", ", ".join(said)) for adversary, said in by_adversary.items()]


def _statement(metrics: dict[str, Any], adversary: str, accountant: str) -> dict[str, Any]:
    return next(
        statement
        for statement in metrics["privacy"]
        if (statement["adversary"], statement["accountant"]) == (adversary, accountant)
    )


def _sampling(credited_rate: float, true_rate: float, why: str) -> str:
    if true_rate == 1.0:
        return "none: all workers send in every slot"
    if credited_rate < 1.0:
        return f"credit for a hidden schedule: 1 worker in {1 / credited_rate:,.4g}"
    return f"no credit: {why}"


def _radio(scenario: Scenario, metrics: dict[str, Any]) -> Rows:
    power, worker, limited = metrics["power_dbm"], metrics["worker_energy_joules"], metrics["power_limited_slots"]
    how_limited = f"the limit lowered the power in {limited:,} of {metrics['slots']:,} slots"
    if scenario.mixing.power == "max":
        how_limited = "the limit sets the power in every slot"
    cost = metrics["worker_cost"]
    return [
        ("on the air", f"{metrics['symbols_per_slot']:,} symbols per slot, {metrics['air_seconds']:.4g} s in total"),
        (
            "  worker computes",
            f"{cost['multiply_accumulates']:,} multiply-accumulates per sample, {cost['constant_bytes']:,} bytes of "
            f"constants, {cost['working_bytes']:,} of working memory",
        ),
        ("energy", f"[bold]{joules(metrics['energy_joules'])}[/bold] in total"),
        ("  per worker", f"{joules(worker['mean'])} mean, {joules(worker['largest'])} largest"),
        ("power", f"{power['median']:.1f} dBm median, {power['largest']:.1f} largest, limit {power['limit']:g}"),
        ("  limited", how_limited),
        ("SNR", f"{metrics['snr_inputs_db']:.1f} dB inputs, {metrics['snr_labels_db']:.1f} dB labels (median slot)"),
    ]


def _folder(metrics: dict[str, Any]) -> Rows:
    runs = metrics.get("runs", [])
    first = f"seed-{runs[0]['seed']}/" if runs else ""
    return [
        ("time", f"{metrics['seconds']:.1f} s"),
        ("run folder", escape(metrics["run_dir"])),
        ("picture", escape(f"{metrics['run_dir']}/{first}figures/overview.png")),
    ]
