"""``airmix run``, and the table at the end of it."""

import math
import os
from pathlib import Path
from typing import Annotated, Any

from rich.markup import escape
from rich.table import Table
from typer import Option

from airmixml.cli import options
from airmixml.cli.terminal import console, inputs_in_words, print_json, progress_bars
from airmixml.output.numbers import joules, outputs_text, plural
from airmixml.scenario import Scenario, Speed, air_in_words
from airmixml.wording import simulated
from airmixml.workers import sends_inputs_unchanged

Rows = list[tuple[str, str]]

_CHECKPOINT_SECONDS = 5.0
_CHECKPOINT_VARIABLE = "AIRMIX_CHECKPOINT_SECONDS"
_NO_PROTECTION_ABOVE_EPSILON = 50.0
_SCORE_NAMES = {
    "r2": "R^2",
    "rmse": "root mean square error",
    "mae": "mean absolute error",
    "labels_right": "labels right",
    "exact_match": "all labels right",
    "macro_f1": "F1, mean over labels",
}
_POLICY_NAMES = {"dirmix": "DirMix", "nonmix": "NonMix", "equalmix": "EqualMix"}


def run_command(
    file: options.File = None,
    preset: options.Preset = None,
    air: options.AirName = None,
    assignments: options.Assignments = None,
    bounds: options.Bounds = None,
    seed: options.Seed = None,
    seeds: options.Seeds = 1,
    out: options.Out = None,
    force: options.Force = False,
    device: options.Device = "cpu",
    block_slots: Annotated[int, Option(help="Number of slots to simulate at a time (0: what suits the device).")] = 0,
    threads: options.Threads = 0,
    engine: options.Engine = "local",
    jobs: options.Jobs = None,
    data_dir: options.DataDir = None,
    private: Annotated[
        bool, Option("--private", help="Protect real data: noise that nobody can repeat, nothing else written.")
    ] = False,
    public_test: Annotated[
        bool, Option("--public-test", help="With --private: the test rows are public, so state the accuracy.")
    ] = False,
    ledger: Annotated[
        Path | None,
        Option(help="Ledger of budgets (`airmix ledger create`): refuse a run that would pass one, before it sends."),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Run a scenario and write a run folder.

    Workers mix their samples over the air, the edge server trains on the mixtures, and the model is scored. Repeat the
    same command to resume an interrupted run. Without --private it is a simulation: its noise follows from the seed.
    """
    tested = public_test or not private
    scenario = options.choose_scenario(
        file, preset, options.on_air(air, assignments), seed, bounds=bounds, data_dir=data_dir, test_rows=tested
    )
    speed = Speed(device=device, block_slots=block_slots, threads=threads)
    options.check_force(force, out)
    from airmixml.runs import run  # after the checks: importing torch takes seconds

    with progress_bars() as progress:
        where: dict[str, Any] = {"out": out, "force": force, "speed": speed, "data_dir": data_dir, "progress": progress}
        where |= {"engine": engine, "jobs": jobs, "ledger": ledger, "checkpoint_seconds": _checkpoint_seconds()}
        result = run(scenario, seeds=seeds, private=private, public_test=public_test, **where)
    metrics = result.to_dict()
    if as_json:
        print_json(metrics)
    else:
        console.print(_run_table(scenario, metrics))


def _checkpoint_seconds() -> float:
    """Return the time between checkpoints; the environment variable AIRMIX_CHECKPOINT_SECONDS sets another one."""
    try:
        return max(0.0, float(os.environ[_CHECKPOINT_VARIABLE]))
    except (KeyError, ValueError):
        return _CHECKPOINT_SECONDS


def _run_table(scenario: Scenario, metrics: dict[str, Any]) -> Table:
    """Return the accuracy, privacy and cost of a run as a table of two columns."""
    runs, protected = metrics.get("runs", []), metrics["mode"] == "protection"
    title = f"{escape(scenario.title)}, " + (f"mean of {len(runs)} seeds" if runs else f"seed {scenario.seed}")
    if protected:
        title = f"{escape(scenario.title)}, protected, {plural(metrics['releases'], 'release')}"
    table = Table(title=title, show_header=False, title_justify="left", title_style="bold")
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(overflow="fold")
    radio = _air_time if protected else _radio
    for part in (_mode, _what_ran, _accuracy, _privacy, radio, _folder):
        for name, value in part(scenario, metrics):
            table.add_row(name, value)
        table.add_section()
    return table


def _mode(scenario: Scenario, metrics: dict[str, Any]) -> Rows:
    if metrics["mode"] == "protection":
        return [("mode", "protection: noise and schedule from the system's entropy, forgotten at once")]
    return [("mode", simulated(scenario.seed))]


def _what_ran(scenario: Scenario, metrics: dict[str, Any]) -> Rows:
    dataset, workers, radio, mixing = metrics["dataset"], scenario.workers, scenario.radio, scenario.mixing
    alpha = f"(alpha = {mixing.alpha:g})" if mixing.policy == "dirmix" else ""
    on_average = " on average" if radio.schedule == "poisson" else ""
    sent_by = f"{workers.count:,}, {radio.scheduled:,} at a time{on_average} in {plural(radio.slots, 'slot')}"
    inputs, outputs = inputs_in_words(workers, dataset["input_dim"]), outputs_text(workers.task, dataset["label_dim"])
    rows = [("data", f"{escape(dataset['name'])}: {inputs}, {outputs}")]
    if not sends_inputs_unchanged(workers):
        centre = "" if workers.centre == "none" else f", centre {workers.centre}"
        rounded = f", {plural(workers.bits, 'bit')} per symbol" if workers.bits else ""
        if workers.bits and workers.centre_on_air:
            rounded += " (the mean before them unrounded)"
        constant = f", constant {workers.constant:g}" if workers.constant else ""
        sent = f"{workers.sends} of {workers.encoder}{centre}{constant}, norm {workers.clip_norm:g}"
        rows.append(("sent", f"{sent}, label weight {workers.label_weight:g}{rounded}"))
    rows += [("workers", sent_by), ("mixing", _POLICY_NAMES[mixing.policy] + alpha)]
    if not scenario.air.is_ideal:
        rows.append(("air", escape(air_in_words(scenario.air))))
    if workers.several_rows:
        most = f", at most {workers.max_rows:,} rows" if workers.max_rows else ""
        norm = f"the norm of {workers.rows_bound:g} row{'' if workers.rows_bound == 1 else 's'}"
        rows.append(("rows per worker", f"one sum of all{most}, shortened to {norm}"))
    if metrics.get("clipped_values"):
        rows.append(("clipped", f"{plural(metrics['clipped_values'], 'input value')} outside the declared bounds"))
    if metrics.get("clipped_samples"):
        counted = scenario.privacy.sensitivity == "encoder"
        hint = "" if counted else "; to gain from it set privacy.sensitivity = encoder"
        rows.append(
            ("clipped", f"{plural(metrics['clipped_samples'], 'sample')}, to the norm {workers.clip_norm:g}{hint}")
        )
    return rows


def _accuracy(scenario: Scenario, metrics: dict[str, Any]) -> Rows:
    accuracy = metrics["accuracy"]
    if metrics["scores"]:
        return _scores(scenario, metrics)
    if accuracy is None:
        hidden = "it would reveal something about the test rows (--public-test if these are public)"
        named = "accuracy" if metrics["task"] == "classification" else "scores"
        return [(named, f"not stated: {hidden}")]

    def percent(name: str) -> str:
        deviation = accuracy.get(f"{name}_deviation")
        return f"{100 * accuracy[name]:.1f}" + ("" if deviation is None else f" ± {100 * deviation:.1f}") + " %"

    final = f"[bold]{percent('final')}[/bold] on the clean test set"
    if scenario.learner.closed_form:
        return [("accuracy", f"{final} ({scenario.learner.model}, closed form)")]
    best_epoch = f"epoch {accuracy['best_epoch']}, " if "best_epoch" in accuracy else ""
    best = f"{percent('best')} ({best_epoch}chosen on the test set)"
    return [("accuracy, final epoch", final), ("accuracy, best epoch", best)]


def _scores(scenario: Scenario, metrics: dict[str, Any]) -> Rows:
    """Return the scores of a regression, or of several labels, on the clean test set."""
    deviations, shares = metrics.get("score_deviations", {}), metrics["task"] == "multi-label"
    how = "closed form" if scenario.learner.closed_form else "final epoch"
    rows = []
    for place, (name, value) in enumerate(metrics["scores"].items()):
        kind, _, target = name.partition(".")
        spread = f" ± {deviations[name] * (100 if shares else 1):.3g}" if name in deviations else ""
        text = f"{100 * value:.1f}{spread} %" if shares else f"{value:.4g}{spread}"
        if place == 0:
            text = f"[bold]{text}[/bold] on the clean test set ({scenario.learner.model}, {how})"
        unit = " in the target's own unit" if kind in ("rmse", "mae") else ""
        rows.append((_SCORE_NAMES[kind] + (f", {escape(target)}" if target else ""), text + unit))
    return rows


def _privacy(scenario: Scenario, metrics: dict[str, Any]) -> Rows:
    statements = metrics["privacy"]
    own, target = statements[0], statements[0]["target_epsilon"]
    server = next(each for each in statements if (each["adversary"], each["accountant"]) == ("server", "gdp"))
    asked = "no target" if target is None else f"target {target:g}"
    holder = "per worker, which is per row of the data" if metrics["row_copies"] == 1 else "per worker"
    if scenario.workers.several_rows:
        holder = "per worker with all its rows"
    stated = f"[bold]epsilon {own['epsilon']:.4g}, delta {own['delta']:.3g}[/bold]"
    rows = [("privacy", f"{stated} {holder} ({asked})")]
    if own["epsilon"] > _NO_PROTECTION_ABOVE_EPSILON:
        rows.append(("", "[bold red]an epsilon this large protects nobody[/bold red]"))
    if target is not None and own["epsilon"] > target * (1.0 + 1e-9):
        together = f" by {metrics['releases']:,} releases together" if metrics.get("releases", 1) > 1 else ""
        rows.append(("", f"[bold red]target missed{together}[/bold red]"))
    if own["delta"] * scenario.workers.count >= 1.0:
        share = f"1 in {scenario.workers.count:,} workers"
        rows.append(("", f"[bold yellow]delta is not below {share}: it permits revealing a worker outright[/]"))
    return [
        *rows,
        ("  against", f"{own['adversary']}: knows {own['knows']}"),
        ("  accountant", f"{own['accountant']}, sensitivity {own['sensitivity']:g}, {own['adjacency']} neighbours"),
        ("  sampling", _sampling(own["sampling_rate"], scenario.sampling_rate, own["why"])),
        ("  noise", f"{own['noise_watts_per_symbol']:.3g} W per symbol {_whose_noise(scenario)}"),
        ("  against the server", f"[bold]epsilon {server['epsilon']:.4g}[/bold] for the worst worker, exact (gdp)"),
        ("", _why_the_server_knows(scenario, server["compositions"])),
        *_other_workers_and_rows(scenario, metrics),
        *_other_statements(statements),
    ]


def _whose_noise(scenario: Scenario) -> str:
    if scenario.privacy.noise == "receiver":
        return "at that adversary's receiver"
    return "that workers bring, as it would be at the server"


def _other_workers_and_rows(scenario: Scenario, metrics: dict[str, Any]) -> Rows:
    """Return the epsilon of the median worker, and of a row that several workers hold: it is protected less."""
    ledger, stated, copies = metrics.get("ledger"), metrics["row_privacy"], metrics["row_copies"]
    rows = [("", f"epsilon {ledger['median_epsilon']:.4g} for the median worker")] if ledger else []
    spent = f"[bold]epsilon {stated['epsilon']:.4g}[/bold] against the server" if stated else ""
    if stated and scenario.workers.several_rows and copies > 1:
        rows.append(("  a person", f"{spent}, with all rows on up to {copies:,} workers"))
    elif stated and scenario.workers.several_rows:
        rows.append(("  one of its rows", spent))
    elif stated and copies > 1:
        rows.append(("  a row of the data", f"{spent}, since up to {copies:,} workers hold it"))
    return rows


def _sampling(credited_rate: float, true_rate: float, why: str) -> str:
    if true_rate == 1.0:
        return "none: all workers send in every slot"
    if credited_rate < 1.0:
        return f"credit for a hidden schedule: 1 worker in {1 / credited_rate:,.4g}"
    return f"no credit: {why}"


def _why_the_server_knows(scenario: Scenario, slots: int) -> str:
    used = "slot" if slots == 1 else f"{slots:,} slots"
    known = f"the server knows which {used} this worker used"
    if scenario.workers.centre_on_air:
        target = "epsilon and delta" if scenario.workers.centre == "private" else "the target"
        return f"{known}, and the mean, which took {100 * scenario.workers.centre_share:g} % of {target}"
    return known


def _other_statements(statements: list[dict[str, Any]]) -> Rows:
    """Return the epsilons of the same run for the other kind of neighbours, then by the other accountants."""
    rows, adjacency = [], statements[0]["adjacency"]
    others = [each for each in statements if each["adjacency"] != adjacency]
    if others:
        said = [f"{each['epsilon']:.4g} ({each['adversary']}, {each['accountant']})" for each in others]
        rows.append((f"  {others[0]['adjacency']}", f"epsilon {', '.join(said)}"))
    by_adversary: dict[str, list[str]] = {}
    for each in statements[1:]:
        exact = (each["adversary"], each["accountant"]) == ("server", "gdp")
        if each["adjacency"] == adjacency and not exact:
            by_adversary.setdefault(each["adversary"], []).append(f"{each['accountant']} {each['epsilon']:.4g}")
    if by_adversary:
        rows.append(("other accountants", ""))
    return rows + [(f"  {adversary}", ", ".join(said)) for adversary, said in by_adversary.items()]


def _radio(scenario: Scenario, metrics: dict[str, Any]) -> Rows:
    power, worker, cost = metrics["power_dbm"], metrics["worker_energy_joules"], metrics["worker_cost"]
    limited = f"the limit lowered the power in {metrics['power_limited_slots']:,} of {plural(metrics['slots'], 'slot')}"
    if scenario.mixing.power == "max":
        limited = "the limit sets the power in every slot"
    computes = f"{cost['multiply_accumulates']:,} multiply-accumulates per sample"
    memory = f"{cost['constant_bytes']:,} bytes of constants, {cost['working_bytes']:,} of working memory"
    return [
        *_air_time(scenario, metrics),
        ("  worker computes", f"{computes}, {memory}"),
        ("energy", f"[bold]{joules(metrics['energy_joules'])}[/bold] in total"),
        ("  per worker", f"{joules(worker['mean'])} mean, {joules(worker['largest'])} largest"),
        ("power", f"{power['median']:.1f} dBm median, {power['largest']:.1f} largest, limit {power['limit']:g}"),
        ("  limited", limited),
        ("SNR", f"{metrics['snr_inputs_db']:.1f} dB inputs, {metrics['snr_labels_db']:.1f} dB labels (median slot)"),
        *_absences(scenario),
    ]


def _absences(scenario: Scenario) -> Rows:
    """Return what absent workers cost whose masks nobody recovers; none where there are none."""
    from airmixml.radio.expected_noise import expected_noise
    from airmixml.radio.recoverable import enough_absent

    noise = expected_noise(scenario)
    if not noise.absent_watts:
        return []
    cost_db = 10.0 * math.log10(noise.total_watts / (noise.total_watts - noise.absent_watts))
    mend = f"privacy.most_absent={enough_absent(scenario):g} recovers them"
    return [("  absent workers", f"their masks stay in the sum: {cost_db:.1f} dB more noise; {mend}")]


def _air_time(_scenario: Scenario, metrics: dict[str, Any]) -> Rows:
    return [
        ("on the air", f"{metrics['symbols_per_slot']:,} symbols per slot, {metrics['air_seconds']:.4g} s in total")
    ]


def _folder(_scenario: Scenario, metrics: dict[str, Any]) -> Rows:
    picture = "seeds" if metrics.get("runs") else "overview"
    if metrics["mode"] == "protection":
        picture = "privacy"
    return [
        ("time", f"{metrics['seconds']:.1f} s"),
        ("run folder", escape(metrics["run_dir"])),
        ("picture", escape(f"{metrics['run_dir']}/figures/{picture}.png")),
    ]
