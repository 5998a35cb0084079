"""The page of a run: what ran, how well it learnt, who learns what, what it cost."""

import math
from typing import Any, Final

from airmixml.files import from_plain
from airmixml.messages import (
    NO_PROTECTION_ABOVE_EPSILON,
    UNINFORMED,
    UNSTATED,
    against,
    duration,
    epsilon_text,
    joules,
    number_text,
    outputs_text,
    plural,
    sentence,
    simulated,
    unstated,
)
from airmixml.output.cards import NOTHING, cards_of, delta_notices, seeds_option, target_notices
from airmixml.output.page import Cards, Folded, Page, Rows
from airmixml.output.tables import Marked, Table
from airmixml.privacy import PrivacyStatement
from airmixml.radio.links import link_rows
from airmixml.scenario import Scenario, air_in_words
from airmixml.scenario.scenario import PROTECTION
from airmixml.workers import sends_inputs_unchanged
from airmixml.workers.population import held_by, inputs_in_words, row_name

_SCORE_NAMES: Final = {
    "r2": "R^2",
    "rmse": "root mean square error",
    "mae": "mean absolute error",
    "labels_right": "labels right",
    "exact_match": "all labels right",
    "macro_f1": "F1, mean over labels",
}
_NO_R2: Final = 5e-7  # less is rounding
_ANSWERS: Final = {
    "classification": "the most frequent class",
    "multi-label": "the more frequent answer",
    "regression": "the mean",
}
_POLICY_NAMES: Final = {"dirmix": "DirMix", "nonmix": "NonMix", "equalmix": "EqualMix"}


def run_page(metrics: dict[str, Any], scenario: Scenario) -> Page:
    """Return the page of a run, or of several seeds, from the content of its ``metrics.json``."""
    protected = metrics["mode"] == PROTECTION
    mode = "protection: noise and schedule from the system's entropy, forgotten at once"
    scores = _scores(scenario, metrics)
    costs = (_air_time_rows if protected else _radio_rows)(scenario, metrics)
    statements = [from_plain(PrivacyStatement, each) for each in metrics["privacy"]]
    cards = cards_of(statements, scenario, _more(scenario, metrics))
    return Page.of_result(
        kind="protected run" if protected else "run",
        title=f"{scenario.title}, {_which(scenario, metrics)}",
        verdict=sentence(_verdict(scenario, metrics, scores)),
        notices=(sentence(mode if protected else simulated(scenario.seed)), *_warnings(scenario, metrics)),
        asked=_what_ran(scenario, metrics),
        results=(*scores, *_baselines(metrics)),
        cards=(Cards(title=scenario.title, cards=cards, on_screen=True),),
        costs=costs,
        tables=_of_classes(metrics["baselines"]),
        command=("run", *_options(metrics)),
    )


def _which(scenario: Scenario, metrics: dict[str, Any]) -> str:
    if metrics["mode"] == PROTECTION:
        killed = f" and {metrics['killed']:,} killed" if metrics["killed"] else ""
        return f"protected, {plural(metrics['releases'], 'release')}{killed}"
    runs = metrics.get("runs")
    return f"mean of {len(runs)} seeds ± standard deviation" if runs else f"seed {scenario.seed}"


def _options(metrics: dict[str, Any]) -> tuple[str, ...]:
    """Return the options that made the run, as its result tells them."""
    options: tuple[str, ...] = ("--private",) if metrics["mode"] == PROTECTION else ()
    options += ("--public-test",) if metrics.get("public_test") else ()
    options += seeds_option(metrics.get("releases") or len(metrics.get("runs", ())))
    return options + (() if metrics["device"] == "cpu" else ("--device", metrics["device"]))


def _warnings(scenario: Scenario, metrics: dict[str, Any]) -> list[str]:
    """Return what a reader must know about the promise before reading any number."""
    own, every = metrics["privacy"][0], metrics.get("releases", 1) + metrics.get("killed", 0)
    missed = target_notices(own["epsilon"], own["target_epsilon"], every)
    return [*missed, *delta_notices(own["delta"], scenario.workers.count)]


def _more(scenario: Scenario, metrics: dict[str, Any]) -> dict[str, Rows]:
    """Return what only a run knows: of each adversary, of the median worker, and of a row of the data."""
    more: dict[str, list[tuple[str, str]]] = {}
    statements, copies = metrics["privacy"], metrics["row_copies"]
    for whom, why in metrics["unstated"].items():
        more[whom] = [("why", unstated(why))]
    for own in {each["adversary"]: each for each in reversed(statements)}.values():
        facts = more.setdefault(own["adversary"], [])
        if failure := sum(own[name] for name in ("schedule_failure", "hidden_failure")):
            facts.append(("except", f"with probability {failure:.2g}, which may be added to delta"))
        if own["hidden_failure"]:
            facts.append(("assumes", UNINFORMED))
        if name := row_name(scenario.workers, copies):
            stated = next((each for each in metrics["row_statements"] if each["adversary"] == own["adversary"]), None)
            said = f"epsilon {drawn_and_before(stated)}" if stated else NOTHING
            facts.append((name, f"{said}, {held_by(scenario.workers, copies)}"))
    if ledger := metrics.get("ledger"):
        more["server"].append(("median worker", f"epsilon {epsilon_text(ledger['median_epsilon'])}"))
    return {whom: tuple(facts) for whom, facts in more.items()}


def drawn_and_before(stated: dict[str, Any]) -> str:
    """Return the epsilon of a statement, and what it was before the schedule was drawn, where that differs."""
    before = stated["before_the_draw"]
    return epsilon_text(stated["epsilon"]) + (f" as drawn, {epsilon_text(before)} before" if before else "")


def _of_classes(found: dict[str, Any] | None) -> tuple[Folded, ...]:
    """Return which classes are taken for which on the clean test set."""
    if not found or not found["confusion"]:
        return ()
    counts = zip(found["classes"], found["confusion"], strict=True)
    rows = tuple((name, *(f"{count:,}" for count in row)) for name, row in counts)
    title = "Confusion matrix: test rows by true class (down) and predicted class (across)"
    table = Table(title=title, columns=("true class", *found["classes"]), rows=rows)
    return (Folded(summary="Each class", parts=(table,), open=True),)


def _verdict(scenario: Scenario, metrics: dict[str, Any], scores: Rows) -> str:
    """Return in one sentence how well it learnt, beside what, and against whom something is promised."""
    name, value = scores[0]
    found, learnt = metrics["baselines"], f"{name} {value.partition(' on the ')[0].partition(':')[0]}"
    if found:
        if no_better_than_guessing(found["gain"], found["gain_error"]):
            learnt = f"nothing was learned{_of_noise(metrics)}: {learnt}, no better than guessing"
        *beside, _ = _baselines(metrics)  # the last is what is beyond guessing
        told = (f"{each.strip()} {text.partition(' (')[0]}" for each, text in beside)
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
    lacking = {"no protection": [*map(against, weak)], UNSTATED: [*map(against, metrics["unstated"])]}
    row = row_name(scenario.workers, metrics["row_copies"])
    of_row = next((each["epsilon"] for each in metrics["row_statements"] if each["adversary"] == own), None)
    if row and own not in weak and (of_row is None or of_row > limit):
        lacking[UNSTATED if of_row is None else "no protection"].append(f"for {row}")
    said += [f"{words} {' or '.join(whom)}" for words, whom in lacking.items() if whom]
    return f"{learnt}; {', '.join(said)}"


def _of_noise(metrics: dict[str, Any]) -> str:
    """Return what to say where noise is stronger than what carries the inputs in a mixture, if that is known."""
    found = metrics.get("snr_inputs_db", 0.0)  # a protected run does not tell it
    return f" at an SNR of {found:.1f} dB" if found < 0.0 else ""


def _what_ran(scenario: Scenario, metrics: dict[str, Any]) -> Rows:
    dataset, workers, radio, mixing = metrics["dataset"], scenario.workers, scenario.radio, scenario.mixing
    alpha = f"(alpha = {mixing.alpha:g})" if mixing.policy == "dirmix" else ""
    on_average = " on average" if radio.schedule_kind.by_coin else ""
    sent_by = f"{workers.count:,}, {radio.scheduled:,} at a time{on_average} in {scenario.slots_in_words}"
    inputs, outputs = inputs_in_words(workers, dataset["input_dim"]), outputs_text(workers.task, dataset["label_dim"])
    rows = [("data", f"{dataset['name']}: {inputs}, {outputs}")]
    if not sends_inputs_unchanged(workers):
        centre = "" if workers.centre == "none" else f", centre {workers.centre}"
        rounded = f", {plural(workers.bits, 'bit')} per symbol" if workers.bits else ""
        constant = f", constant {workers.constant:g}" if workers.constant else ""
        sent = f"{workers.sends} of {workers.encoder}{centre}{constant}, norm {workers.clip_norm:g}"
        rows.append(("sent", f"{sent}, label weight {workers.label_weight:g}{rounded}"))
    rows += [("workers", sent_by), ("mixing", _POLICY_NAMES.get(mixing.policy, mixing.policy) + alpha)]
    if integers := metrics.get("integers"):
        from airmixml.integers.integer_noise import integers_in_words

        rows.append(("integers", integers_in_words(integers)))
    if why := scenario.why_no_rounds:
        rows.append(("rounds", f"none: {why}"))
    if not scenario.air.is_ideal:
        rows.append(("air", air_in_words(scenario.air)))
    if workers.several_rows:
        most = f", at most {workers.max_rows:,} rows" if workers.max_rows else ""
        rows.append(("rows per worker", f"one sum of all{most}, shortened to {workers.rows_bound:g} norms of a row"))
    if metrics.get("clipped_values"):
        rows.append(("clipped", f"{plural(metrics['clipped_values'], 'input value')} outside the declared bounds"))
    if metrics.get("clipped_samples"):
        rows.append(("clipped", f"{plural(metrics['clipped_samples'], 'sample')}, to the norm {workers.clip_norm:g}"))
    return rows


def no_better_than_guessing(gain: float, error: float) -> bool:
    """Return whether a score is no more than two standard errors above that of guessing."""
    return gain <= 2.0 * error


def _baselines(metrics: dict[str, Any]) -> Rows:
    """Return what the score stands beside; cells of a sweep have none."""
    found = metrics["baselines"]
    if not found:
        return []
    shares = metrics["task"] != "regression"

    def told(value: float) -> str:
        return f"{100 * value:.1f} %" if shares else f"R^2 {0.0 if abs(value) < _NO_R2 else value:.4g}"

    reached, how = found["without_privacy"], found["how"]
    gain, error = ((100 if shares else 1) * found[name] for name in ("gain", "gain_error"))
    gained = f"{gain:.3g} ± {2 * error:.2g}{' points' if shares else ' of R^2'} (two standard errors)"
    if no_better_than_guessing(gain, error):
        gained = Marked(f"no better than guessing: {gained}")
    learner = how.replace(",", " ").partition(" ")[0]  # which need not be the run's
    rows = [(f"  {learner} without privacy", f"{told(reached)} ({how})")] if reached is not None else []
    guess = f"{told(found['guess'])} (always {_ANSWERS[metrics['task']]} of the test rows)"
    return [*rows, ("  guessing", guess), ("  beyond guessing", gained)]


def _scores(scenario: Scenario, metrics: dict[str, Any]) -> Rows:
    """Return accuracy, or the scores of another task, on the clean test set."""
    accuracy, shares, learner = metrics["accuracy"], metrics["task"] != "regression", scenario.learner
    how = f"({scenario.learner_in_words})" if learner.closed_form else f"({learner.model}, final epoch)"
    deviations, rows = metrics.get("score_deviations", {}), []

    def told(name: str, value: float) -> str:
        if shares:
            return f"{100 * value:.1f}" + (f" ± {100 * deviations[name]:.1f}" if name in deviations else "") + " %"
        return number_text(value) + (f" ± {number_text(deviations[name], 3)}" if name in deviations else "")

    if accuracy is not None:
        best_epoch = f"epoch {accuracy['best_epoch']}, " if accuracy["best_epoch"] else ""
        best = ("  best epoch", f"{told('best', accuracy['best'])} ({best_epoch}chosen on the test set)")
        final = ("accuracy", f"{told('final', accuracy['final'])} on the clean test set {how}")
        return (final,) if learner.closed_form else (final, best)
    if not metrics["scores"]:
        hidden = "it would reveal something about the test rows (--public-test if these are public)"
        return (("accuracy" if metrics["task"] == "classification" else "scores", f"not stated: {hidden}"),)
    for place, (name, value) in enumerate(metrics["scores"].items()):
        kind, _, target = name.partition(".")
        text = told(name, value) + (f" on the clean test set {how}" if place == 0 else "")
        unit = " in the target's own unit" if kind in ("rmse", "mae") else ""
        rows.append((_SCORE_NAMES[kind] + (f", {target}" if target else ""), text + unit))
    return tuple(rows)


def _radio_rows(scenario: Scenario, metrics: dict[str, Any]) -> Rows:
    """Return what a simulated run cost: time on the air, computing, energy and power."""
    power, worker, cost = metrics["power_dbm"], metrics["worker_energy_joules"], metrics["worker_cost"]
    count, never = metrics["power_limited_slots"], metrics["ledger"]["slots_per_worker"]["silent"]
    limit = f"limit {power['limit']:g}" + (f", reached in {plural(count, 'slot')}" if count else "")
    computes = f"{cost['multiply_accumulates']:,} multiply-accumulates per sample"
    if metrics.get("rounds"):
        computes += f", {metrics['rounds']['multiply_accumulates_per_round']:,.0f} in each round"
    memory = f"{cost['constant_bytes']:,} bytes of constants, {cost['working_bytes']:,} of working memory"
    rows = [
        *_air_time_rows(scenario, metrics),
        ("  worker computes", f"{computes}, {memory}"),
        ("energy", f"{joules(metrics['energy_joules'])} in total"),
        ("  per worker", f"{joules(worker['mean'])} mean, {joules(worker['largest'])} largest"),
        ("power", f"{power['median']:.1f} dBm median, {power['largest']:.1f} largest, {limit}"),
        ("SNR", f"{metrics['snr_inputs_db']:.1f} dB inputs, {metrics['snr_labels_db']:.1f} dB labels (median slot)"),
    ]
    if never and not math.isinf(scenario.met.air.min_power_dbm):
        why = f"cannot send as softly as they must (air.min_power_dbm = {scenario.air.min_power_dbm:g}), or were absent"
        rows.append(("  silent", Marked(f"{never:,} of {scenario.workers.count:,} workers: they {why}")))
    return rows


def _air_time_rows(scenario: Scenario, metrics: dict[str, Any]) -> Rows:
    """Return what was sent and how long that takes."""
    unit, link = scenario.radio.link_kind.unit, metrics.get("link")
    lasts = duration(metrics["air_seconds"])
    rows = [("on the air", f"{metrics['symbols_per_slot']:,} {unit} per slot, {lasts} in total")]
    if link:
        rows += [(f"  {name}", text) for name, text in link_rows(link)]
    if rounds := metrics.get("rounds"):
        up, down = rounds["symbols_per_round"], rounds["downlink_bits_per_round"]
        rows += [
            ("  a round", f"{up:,.0f} {unit} up; {down:,.0f} bits down, the model for all workers"),
            ("", f"workers must be reachable {metrics['slots'] + scenario.workers.centre_on_air:,} times"),
        ]
    return rows
