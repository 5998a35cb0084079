"""What a run promises and what it cost, in rows of names and values."""

import math
from typing import Any

from airmixml.output.cards import PROTECTS_NOBODY
from airmixml.output.page import Rows
from airmixml.output.tables import Marked
from airmixml.privacy.evaluation import UNCHANGED, receiver_in_words
from airmixml.radio.analog_link import acquisition_rows
from airmixml.scenario import Scenario
from airmixml.wording import (
    NO_PROTECTION_ABOVE_EPSILON,
    UNSTATED,
    against,
    duration,
    epsilon_text,
    if_uninformed,
    joules,
    own_slots,
    plural,
    unstated,
)
from airmixml.workers.population import held_by, row_name


def median_rows(metrics: dict[str, Any]) -> list[str]:
    """Return what the median worker spent; a protected run does not tell."""
    ledger = metrics.get("ledger")
    return [f"epsilon {epsilon_text(ledger['median_epsilon'])} for the median worker"] if ledger else []


def privacy_rows(scenario: Scenario, metrics: dict[str, Any]) -> Rows:
    """Return what is promised, for whom and against whom, and what that rests on."""
    statements = metrics["privacy"]
    own, target = statements[0], statements[0]["target_epsilon"]
    server = next(each for each in statements if (each["adversary"], each["accountant"]) == ("server", "gdp"))
    asked = "no target" if target is None else f"target {target:g}"
    holder = "per worker, which is per row of the data" if metrics["row_copies"] == 1 else "per worker"
    if scenario.workers.several_rows:
        holder = "per worker with all its rows"
    stated = f"epsilon {epsilon_text(own['epsilon'])}, delta {own['delta']:.3g}"
    rows = [("privacy", f"{stated} {holder} ({asked}{_by_whom(statements)})")]
    if failure := sum(own.get(name, 0.0) for name in ("schedule_failure", "hidden_failure")):
        rows.append(("", f"except with probability {failure:.2g}, which may be added to delta"))
    if on_graph := [each["adversary"] for each in statements if each.get("hidden_failure")]:
        rows.append(("", if_uninformed(on_graph)))
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
            f"epsilon {epsilon_text(server['epsilon'])} for the worst worker, exact (gdp)",
        ),
        ("", _why_the_server_knows(scenario, server["compositions"])),
        *([("", server["why"].rpartition("; ")[2])] if server.get("before_the_draw") else []),
        *(("", text) for text in median_rows(metrics)),
        *((f"  {adversary}", unstated(why)) for adversary, why in metrics["unstated"].items()),
        *_other_adversaries([each for each in statements if each["adjacency"] == own["adjacency"]]),
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
    """Return what is assumed of the adversary's receiver."""
    if own["adversary"] == "everyone" or (scenario.privacy.noise_kind.brought and not own["if_better"]):
        return (("  receiver", UNCHANGED),)
    told = receiver_in_words(own["antennas"], own["if_better"], own["accountant"])
    return (("  receiver", told),) if told else ()


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
    """Return the epsilon of a row of the data by adversary, the target's first."""
    return {each["adversary"]: each["epsilon"] for each in metrics["row_statements"]}


def of_row(metrics: dict[str, Any], adversary: str) -> str:
    """Return the epsilon of a row of the data against an adversary."""
    stated = next(each for each in metrics["row_statements"] if each["adversary"] == adversary)
    return f"{epsilon_text(stated['epsilon'])}{_in_brackets(stated)}"


def _in_brackets(stated: dict[str, Any]) -> str:
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
    said = f"epsilon {of_row(metrics, first)} {against(first)}, {held_by(scenario.workers, copies)}"
    others = ", ".join(f"{each} {of_row(metrics, each)}" for each in epsilons if each != first)
    rows = [(f"  {name}", said), *([("", f"against others: {others}")] if others else [])]
    if own not in epsilons:
        rows.append(("", f"{UNSTATED} {against(own)}"))
    if epsilons[first] > NO_PROTECTION_ABOVE_EPSILON:
        rows.append(("", Marked(PROTECTS_NOBODY)))
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


def _other_adversaries(statements: list[dict[str, Any]]) -> Rows:
    """Return the smallest epsilon against each other adversary; cards have what every accountant says."""
    told = {statements[0]["adversary"], "server"}
    least = [
        min((one for one in statements if one["adversary"] == adversary), key=lambda one: float(one["epsilon"]))
        for adversary in dict.fromkeys(each["adversary"] for each in statements)
        if adversary not in told
    ]
    said = (
        f"{one['adversary']} {epsilon_text(one['epsilon'])}{_in_brackets(one)} ({one['accountant']})" for one in least
    )
    return [("  against others", f"epsilon {', '.join(said)}")] if least else []


def radio_rows(scenario: Scenario, metrics: dict[str, Any]) -> Rows:
    """Return what a simulated run cost: time on the air, computing, energy and power."""
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
        *air_time_rows(scenario, metrics),
        ("  worker computes", f"{computes}, {memory}"),
        ("energy", f"{joules(metrics['energy_joules'])} in total"),
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
    return [("  silent", Marked(f"{never:,} of {scenario.workers.count:,} workers never sent: {why}"))]


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
    return [("  gain errors", Marked(advice))] if advice else []


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


def air_time_rows(scenario: Scenario, metrics: dict[str, Any]) -> Rows:
    """Return what was sent and how long that takes."""
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
