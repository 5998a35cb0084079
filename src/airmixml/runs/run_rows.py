"""A run in rows of names and values: what ran, how well it learnt, who learns what, what it cost.

The terminal and the report show the same rows. Values have Rich's markup; ``plain_rows`` leaves it out.
"""

import math
from collections.abc import Iterable
from typing import Any, Final

from rich.markup import escape
from rich.text import Text

from airmixml.privacy.evaluation import UNCHANGED, receiver_in_words
from airmixml.radio.analog_link import acquisition_rows
from airmixml.scenario import Scenario, air_in_words
from airmixml.wording import (
    NO_PROTECTION_ABOVE_EPSILON,
    UNSTATED,
    against,
    duration,
    epsilon_text,
    if_uninformed,
    joules,
    number_text,
    outputs_text,
    own_slots,
    plural,
    simulated,
    unstated,
)
from airmixml.workers import sends_inputs_unchanged
from airmixml.workers.population import held_by, inputs_in_words, row_name

Rows = list[tuple[str, str]]

PROTECTS_NOBODY: Final = "an epsilon this large protects nobody"
_SCORE_NAMES: Final = {
    "r2": "R^2",
    "rmse": "root mean square error",
    "mae": "mean absolute error",
    "labels_right": "labels right",
    "exact_match": "all labels right",
    "macro_f1": "F1, mean over labels",
}
_CLASSES_SHOWN: Final = 6
_NO_R2: Final = 5e-7  # less is rounding
_ANSWERS: Final = {
    "classification": "always the most frequent class of the test rows",
    "multi-label": "always the more frequent answer of the test rows",
    "regression": "always the mean of the test rows",
}
_POLICY_NAMES: Final = {"dirmix": "DirMix", "nonmix": "NonMix", "equalmix": "EqualMix"}


def run_rows(scenario: Scenario, metrics: dict[str, Any]) -> dict[str, Rows]:
    """Return all rows of a run, or of several seeds, from the content of its ``metrics.json``, part by part."""
    radio = _air_time if metrics["mode"] == "protection" else _radio
    parts = {
        "verdict": _verdict,
        "mode": _mode,
        "ran": _what_ran,
        "scores": _quality,
        "privacy": _privacy,
        "radio": radio,
    }
    return {name: part(scenario, metrics) for name, part in {**parts, "folder": _folder}.items()}


def run_title(scenario: Scenario, metrics: dict[str, Any]) -> str:
    """Return what a run is called above its rows, as it is."""
    if metrics["mode"] == "protection":
        killed = f" and {metrics['killed']:,} killed" if metrics.get("killed") else ""
        return f"{scenario.title}, protected, {plural(metrics['releases'], 'release')}{killed}"
    runs = metrics.get("runs", [])
    return f"{scenario.title}, " + (
        f"mean of {len(runs)} seeds ± standard deviation" if runs else f"seed {scenario.seed}"
    )


def plain_rows(rows: Iterable[tuple[str, str]]) -> Rows:
    """Return the rows without markup."""
    return [(name.strip(), Text.from_markup(value).plain) for name, value in rows]


def _verdict(scenario: Scenario, metrics: dict[str, Any]) -> Rows:
    """Return in one sentence how well it learnt, beside what, and against whom something is promised."""
    name, value = plain_rows(_accuracy(scenario, metrics))[0]
    found, learnt = (
        metrics.get("baselines"),
        f"{name.partition(',')[0]} {value.partition(' on the ')[0].partition(':')[0]}",
    )
    if found:
        learnt += ", no better than guessing" * no_better_than_guessing(found["gain"], found["gain_error"])
        beside = [row for row in plain_rows(_baselines(metrics)) if row[0] in (_without_privacy(found), "guessing")]
        told = (f"{each} {text.partition(' (')[0]}" for each, text in beside)
        learnt += f" ({', '.join(told)})"
    least: dict[str, float] = {}
    for each in metrics["privacy"]:
        if each["adjacency"] == metrics["privacy"][0]["adjacency"]:
            least[each["adversary"]] = min(each["epsilon"], least.get(each["adversary"], math.inf))
    own, limit = metrics["privacy"][0]["adversary"], NO_PROTECTION_ABOVE_EPSILON
    weak = [each for each, epsilon in least.items() if epsilon > limit]
    shown = {each: epsilon_text(epsilon) for each, epsilon in least.items()}  # what differs only by rounding is equal
    more = [each for each in least if least[each] > least[own] and shown[each] != shown[own]]
    above = [each for each in least if each not in weak and each in (own, *more)]
    said = [f"epsilon {shown[each]} {against(each)}" for each in above]
    lacking = {"no protection": [*map(against, weak)], UNSTATED: [*map(against, metrics.get("unstated") or ())]}
    row, of_row = row_name(scenario.workers, metrics["row_copies"]), row_epsilons(metrics).get(own)
    if row and own not in weak and (of_row is None or of_row > limit):
        lacking[UNSTATED if of_row is None else "no protection"].append(f"for {row}")
    said += [f"{words} {' or '.join(whom)}" for words, whom in lacking.items() if whom]
    return [("result", f"[bold]{escape(learnt)}[/bold]; {', '.join(said)}")]


def _mode(scenario: Scenario, metrics: dict[str, Any]) -> Rows:
    if metrics["mode"] == "protection":
        return [("mode", "protection: noise and schedule from the system's entropy, forgotten at once")]
    return [("mode", simulated(scenario.seed))]


def _what_ran(scenario: Scenario, metrics: dict[str, Any]) -> Rows:
    dataset, workers, radio, mixing = metrics["dataset"], scenario.workers, scenario.radio, scenario.mixing
    alpha = f"(alpha = {mixing.alpha:g})" if mixing.policy == "dirmix" else ""
    on_average = " on average" if radio.schedule_kind.by_coin else ""
    sent_by = f"{workers.count:,}, {radio.scheduled:,} at a time{on_average} in {scenario.slots_in_words}"
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
    rows += [("workers", sent_by), ("mixing", _POLICY_NAMES.get(mixing.policy, mixing.policy) + alpha)]
    if why := scenario.why_no_rounds:
        rows.append(("rounds", f"none: {escape(why)}"))
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


def _quality(scenario: Scenario, metrics: dict[str, Any]) -> Rows:
    return [*_accuracy(scenario, metrics), *_baselines(metrics)]


def no_better_than_guessing(gain: float, error: float) -> bool:
    """Return whether a score is no more than two standard errors above that of guessing."""
    return gain <= 2.0 * error


def _without_privacy(found: dict[str, Any]) -> str:
    """Return what the row of the learner without privacy is called: by that learner, which need not be the run's."""
    return f"{found['how'].replace(',', ' ').partition(' ')[0]} without privacy"


def _baselines(metrics: dict[str, Any]) -> Rows:
    """Return what the score stands beside, and which classes it is worst at; older runs do not have it."""
    found = metrics.get("baselines")
    if not found:
        return []
    shares = metrics["task"] != "regression"

    def told(value: float) -> str:
        return f"{100 * value:.1f} %" if shares else f"R^2 {0.0 if abs(value) < _NO_R2 else value:.4g}"

    reached, how = found["without_privacy"], escape(found["how"])
    gain, error = ((100 if shares else 1) * found[name] for name in ("gain", "gain_error"))
    unit, answer = (" points", _ANSWERS[metrics["task"]]) if shares else (" of R^2", _ANSWERS["regression"])
    over = "test rows and seeds" if metrics.get("runs") else "test rows"
    gained = f"{gain:.3g} ± {2 * error:.2g}{unit} (about 95 %: two standard errors over {over})"
    if no_better_than_guessing(gain, error):
        gained = f"[bold yellow]no better than guessing: {gained}[/bold yellow]"
    rows = [(f"  {_without_privacy(found)}", f"{told(reached)} ({how})")] if reached is not None else []
    rows += [("  guessing", f"{told(found['guess'])} ({answer})"), ("  beyond guessing", gained)]
    named = [(escape(each["name"]), each["recall"]) for each in found["classes"] if each["recall"] is not None]
    if len(named) > _CLASSES_SHOWN:
        named = sorted(named, key=lambda each: each[1])[:_CLASSES_SHOWN]
    if named:
        worst = f"the {_CLASSES_SHOWN} worst of {len(found['classes'])}: " * (len(found["classes"]) > _CLASSES_SHOWN)
        rows.append(("  recall", worst + ", ".join(f"{name}: {100 * recall:.0f} %" for name, recall in named)))
    mistakes = [
        (count, f"{plural(count, 'row')} of {name['name']} taken for {other['name']}")
        for name, row in zip(found["classes"], found["confusion"], strict=False)
        for other, count in zip(found["classes"], row, strict=True)
        if other is not name and count
    ]
    if mistakes:
        rows.append(("  most confused", escape(max(mistakes)[1])))
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
        return [("accuracy", f"{final} ({scenario.learner_in_words})")]
    best_epoch = f"epoch {accuracy['best_epoch']}, " if "best_epoch" in accuracy else ""
    best = f"{percent('best')} ({best_epoch}chosen on the test set)"
    return [("accuracy, final epoch", final), ("accuracy, best epoch", best)]


def _scores(scenario: Scenario, metrics: dict[str, Any]) -> Rows:
    """Return the scores of a regression, or of several labels, on the clean test set."""
    deviations, shares = metrics.get("score_deviations", {}), metrics["task"] == "multi-label"
    learner = scenario.learner
    how = scenario.learner_in_words if learner.closed_form else f"{learner.model}, final epoch"
    rows = []
    for place, (name, value) in enumerate(metrics["scores"].items()):
        kind, _, target = name.partition(".")
        spread = f" ± {number_text(deviations[name] * (100 if shares else 1), 3)}" if name in deviations else ""
        text = f"{100 * value:.1f}{spread} %" if shares else f"{number_text(value)}{spread}"
        if place == 0:
            text = f"[bold]{text}[/bold] on the clean test set ({how})"
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
    stated = f"[bold]epsilon {epsilon_text(own['epsilon'])}, delta {own['delta']:.3g}[/bold]"
    rows = [("privacy", f"{stated} {holder} ({asked}{_by_whom(statements)})")]
    if failure := sum(own.get(name, 0.0) for name in ("schedule_failure", "hidden_failure")):
        rows.append(("", f"except with probability {failure:.2g}, which may be added to delta"))
    if on_graph := [each["adversary"] for each in statements if each.get("hidden_failure")]:
        rows.append(("", if_uninformed(on_graph)))
    if own["epsilon"] > NO_PROTECTION_ABOVE_EPSILON:
        rows.append(("", f"[bold red]{PROTECTS_NOBODY}[/bold red]"))
    if target is not None and own["epsilon"] > target * (1.0 + 1e-9):
        every = metrics.get("releases", 1) + metrics.get("killed", 0)
        together = f" by {every:,} releases together" if every > 1 else ""
        rows.append(("", f"[bold red]target missed{together}[/bold red]"))
    if own["delta"] * scenario.workers.count >= 1.0:
        share = f"1 in {scenario.workers.count:,} workers"
        rows.append(("", f"[bold yellow]delta is not below {share}: it permits revealing a worker outright[/]"))
    median = metrics["ledger"]["median_epsilon"] if metrics.get("ledger") else None
    return [
        *rows,
        *_rows_of_data(scenario, metrics),
        ("  against", f"{own['adversary']}: knows {own['knows']}"),
        ("  accountant", f"{own['accountant']}, sensitivity {own['sensitivity']:g}, {own['adjacency']} neighbours"),
        ("  sampling", _sampling(own["sampling_rate"], scenario.sampling_rate, own["why"])),
        ("  noise", _noise(scenario, own, metrics)),
        *_receiver(scenario, own),
        (
            "  against the server",
            f"[bold]epsilon {epsilon_text(server['epsilon'])}[/bold] for the worst worker, exact (gdp)",
        ),
        ("", _why_the_server_knows(scenario, server["compositions"])),
        *([("", server["why"].rpartition("; ")[2])] if server.get("before_the_draw") else []),
        *([] if median is None else [("", f"epsilon {epsilon_text(median)} for the median worker")]),
        *[(f"  {adversary}", escape(unstated(why))) for adversary, why in (metrics.get("unstated") or {}).items()],
        *_other_statements(statements),
    ]


def _by_whom(statements: list[dict[str, Any]]) -> str:
    """Return which accountant states the first epsilon, and what the sharpest one does, where that is less."""
    own = statements[0]
    alike = [each for each in statements if all(each[key] == own[key] for key in ("adversary", "adjacency", "delta"))]
    least = min(alike, key=lambda each: each["epsilon"])
    if epsilon_text(least["epsilon"]) == epsilon_text(own["epsilon"]):
        return ""
    return f"; by {own['accountant']}; {epsilon_text(least['epsilon'])} by {least['accountant']}"


def _receiver(scenario: Scenario, own: dict[str, Any]) -> Rows:
    """Return what is assumed of the adversary's receiver; runs of earlier versions did not state it."""
    if own["adversary"] == "everyone" or (scenario.privacy.noise_kind.brought and own.get("if_better") == {}):
        return [("  receiver", UNCHANGED)]
    told = receiver_in_words(own["antennas"], own["if_better"], own["accountant"]) if "if_better" in own else ""
    return [("  receiver", told)] if told else []


def _noise(scenario: Scenario, own: dict[str, Any], metrics: dict[str, Any]) -> str:
    """Return how much noise hides a worker, and whose it is."""
    if metrics.get("integers"):
        from airmixml.integers.integer_noise import integers_in_words

        return f"that workers bring, on integers {integers_in_words(metrics['integers'])}"
    watts = f"{own['noise_watts_per_symbol']:.3g} W per symbol"
    if not scenario.privacy.noise_kind.brought:
        return f"{watts} at that adversary's receiver"
    return f"{watts} that workers bring, as it would be at the server"


def row_epsilons(metrics: dict[str, Any]) -> dict[str, float]:
    """Return the epsilon of a row of the data by adversary, the target's first; older runs know the server's alone."""
    stated = metrics.get("row_statements") or [each for each in [metrics["row_privacy"]] if each]
    return {each["adversary"]: each["epsilon"] for each in stated}


def before_the_draw(metrics: dict[str, Any], adversary: str) -> str:
    """Return the epsilon of a row before the schedule was drawn, for brackets after the one as drawn; else nothing."""
    stated = {each["adversary"]: each for each in metrics.get("row_statements") or ()}
    return in_brackets(stated.get(adversary, {}))


def in_brackets(stated: dict[str, Any]) -> str:
    """Return what a statement for the drawn schedule was before the draw; empty where that is the same."""
    before = stated.get("before_the_draw")
    return f" (before the draw {epsilon_text(before)})" if before else ""


def _rows_of_data(scenario: Scenario, metrics: dict[str, Any]) -> Rows:
    """Return the epsilons of a row that several workers hold, or of one of a worker's rows."""
    epsilons, copies, own = row_epsilons(metrics), metrics["row_copies"], metrics["privacy"][0]["adversary"]
    name = row_name(scenario.workers, copies)
    if not (name and epsilons):
        return []
    first = own if own in epsilons else "server"
    told = {each: f"{epsilon_text(epsilon)}{before_the_draw(metrics, each)}" for each, epsilon in epsilons.items()}
    said = f"[bold]epsilon {told[first]}[/bold] {against(first)}, {held_by(scenario.workers, copies)}"
    others = ", ".join(f"{each} {text}" for each, text in told.items() if each != first)
    rows = [(f"  {name}", said), *([("", f"against others: {others}")] if others else [])]
    if own not in epsilons:
        rows.append(("", f"{UNSTATED} {against(own)}"))
    if epsilons[first] > NO_PROTECTION_ABOVE_EPSILON:
        rows.append(("", f"[bold red]{PROTECTS_NOBODY}[/bold red]"))
    return rows


def _sampling(credited_rate: float, true_rate: float, why: str) -> str:
    if true_rate == 1.0:
        return "none: all workers send in every slot"
    if credited_rate < 1.0:
        return f"credit for a hidden schedule: 1 worker in {1 / credited_rate:,.4g}"
    return f"no credit: {why}"


def _why_the_server_knows(scenario: Scenario, slots: int) -> str:
    mean = scenario.workers.centre_on_air
    used, comma, one = own_slots(slots, mean=mean).removeprefix("1 ").partition(",")
    target = "epsilon and delta" if scenario.workers.centre == "private" else "the target"
    took = f", which took {100 * scenario.workers.centre_share:g} % of {target}" if mean else ""
    return f"the server knows which {used} this worker used{comma}{one}{took}"


def _other_statements(statements: list[dict[str, Any]]) -> Rows:
    """Return the epsilons of the same run for the other kind of neighbours, then by the other accountants."""
    rows, adjacency = [], statements[0]["adjacency"]
    others = [each for each in statements if each["adjacency"] != adjacency]
    if others:
        said = [
            f"{epsilon_text(each['epsilon'])}{in_brackets(each)} ({each['adversary']}, {each['accountant']})"
            for each in others
        ]
        rows.append((f"  {others[0]['adjacency']}", f"epsilon {', '.join(said)}"))
    by_adversary: dict[str, list[str]] = {}
    for each in statements[1:]:
        exact = (each["adversary"], each["accountant"]) == ("server", "gdp")
        if each["adjacency"] == adjacency and not exact:
            by_adversary.setdefault(each["adversary"], []).append(
                f"{each['accountant']} {epsilon_text(each['epsilon'])}{in_brackets(each)}"
            )
    if by_adversary:
        rows.append(("other accountants", ""))
    return rows + [(f"  {adversary}", ", ".join(said)) for adversary, said in by_adversary.items()]


def _radio(scenario: Scenario, metrics: dict[str, Any]) -> Rows:
    power, worker, cost = metrics["power_dbm"], metrics["worker_energy_joules"], metrics["worker_cost"]
    count = metrics["power_limited_slots"]
    slots = f"{count:,} of {plural(metrics['slots'], 'slot')}" if count else "no slot"
    limited = f"the limit lowered the power in {slots}"
    if scenario.mixing.power_policy.follows_channels:
        limited = "the limit sets the power in every slot"
    computes = f"{cost['multiply_accumulates']:,} multiply-accumulates per sample"
    if metrics.get("rounds"):
        computes += f", {metrics['rounds']['multiply_accumulates_per_round']:,.0f} in each round"
    memory = f"{cost['constant_bytes']:,} bytes of constants, {cost['working_bytes']:,} of working memory"
    return [
        *_air_time(scenario, metrics),
        ("  worker computes", f"{computes}, {memory}"),
        ("energy", f"[bold]{joules(metrics['energy_joules'])}[/bold] in total"),
        ("  per worker", f"{joules(worker['mean'])} mean, {joules(worker['largest'])} largest"),
        ("  from power", scenario.radio.link_kind.energy_in_words(scenario)),
        ("power", f"{power['median']:.1f} dBm median, {power['largest']:.1f} largest, limit {power['limit']:g}"),
        ("  limited", limited),
        ("SNR", f"{metrics['snr_inputs_db']:.1f} dB inputs, {metrics['snr_labels_db']:.1f} dB labels (median slot)"),
        *_too_soft(scenario, metrics),
        *_absences(scenario),
        *_gain_errors(scenario),
    ]


def _too_soft(scenario: Scenario, metrics: dict[str, Any]) -> Rows:
    """Return how many workers never sent where transmitters have a lowest power; none where they have none."""
    never = metrics["ledger"]["slots_per_worker"].get("silent", 0)
    if math.isinf(scenario.met.air.min_power_dbm) or not never:
        return []
    why = (
        f"they cannot send as softly as they must (air.min_power_dbm = {scenario.air.min_power_dbm:g}), or were absent"
    )
    return [("  silent", f"[bold red]{never:,} of {scenario.workers.count:,} workers never sent[/bold red]: {why}")]


def _absences(scenario: Scenario) -> Rows:
    """Return what absent workers cost whose masks nobody recovers; none where there are none."""
    from airmixml.radio.noise import expected_noise

    noise = expected_noise(scenario)
    if not noise.absent_watts:
        return []
    cost_db = 10.0 * math.log10(noise.total_watts / (noise.total_watts - noise.absent_watts))
    told = f"their masks stay in the sum: {cost_db:.1f} dB more noise"
    return [("  absent workers", f"{told}; {_recovery_advice(scenario)}")]


def _gain_errors(scenario: Scenario) -> Rows:
    """Return what gain errors make of masks and noise, where that is much."""
    advice = scenario.privacy.noise_kind.advice(scenario)
    return [("  gain errors", f"[bold red]{advice}[/bold red]")] if advice else []


def _recovery_advice(scenario: Scenario) -> str:
    """Return what recovery would do about the masks of absent workers, at the same privacy."""
    from airmixml.radio.masking import enough_absent, masking_of, most_recoverable_share
    from airmixml.radio.noise import expected_noise

    enough, most = enough_absent(scenario), most_recoverable_share(scenario)
    if enough > most:
        return f"at most {most:g} can be recovered"
    noise = []  # over what hides a worker, with which its signal may grow
    for each in (scenario, scenario.with_overrides(f"privacy.most_absent={enough:g}")):
        masking = masking_of(each)
        assert masking is not None
        noise.append(expected_noise(each).total_watts / masking.hidden_watts)
    if noise[1] < noise[0]:
        return f"privacy.most_absent={enough:g} recovers them"
    return "on this air to recover them would add more"


def _air_time(scenario: Scenario, metrics: dict[str, Any]) -> Rows:
    unit, link = scenario.radio.link_kind.unit, metrics.get("link")
    lasts = duration(metrics["air_seconds"])
    rows = [("on the air", f"{metrics['symbols_per_slot']:,} {unit} per slot, {lasts} in total")]
    rows += [(f"  {name}", text) for name, text in acquisition_rows(scenario)]
    if link:
        from airmixml.radio.digital_link import link_rows

        rows += [(f"  {name}", text) for name, text in link_rows(link)]
    if rounds := metrics.get("rounds"):
        up, down = rounds["symbols_per_round"], rounds["downlink_bits_per_round"]
        rows += [
            ("  a round", f"{up:,.0f} {unit} up; {down:,.0f} bits down, the model for all workers"),
            ("", f"workers must be reachable {metrics['slots'] + scenario.workers.centre_on_air:,} times"),
        ]
    return rows


def _folder(_scenario: Scenario, metrics: dict[str, Any]) -> Rows:
    picture = "seeds" if metrics.get("runs") else "overview"
    if metrics["mode"] == "protection":
        picture = "privacy"
    return [
        ("time", duration(metrics["seconds"])),
        ("run folder", escape(metrics["run_dir"])),
        ("picture", escape(f"{metrics['run_dir']}/figures/{picture}.png")),
    ]
