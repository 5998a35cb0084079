"""What a run cost: time on the air, computing, energy and power, in rows of names and values."""

import math
from typing import Any

from airmixml.output.page import Rows
from airmixml.output.tables import Marked
from airmixml.radio.links import acquisition_rows
from airmixml.scenario import Scenario
from airmixml.wording import duration, joules, plural


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
    told = f"their masks stay in the sum: {cost_db:.1f} dB more noise (airmix plan says whether to recover them)"
    return [("  absent workers", told)]


def _gain_errors(scenario: Scenario) -> Rows:
    """Return what gain errors make of masks and noise, where that is much."""
    advice = scenario.privacy.noise_kind.advice(scenario)
    return [("  gain errors", Marked(advice))] if advice else []


def air_time_rows(scenario: Scenario, metrics: dict[str, Any]) -> Rows:
    """Return what was sent and how long that takes."""
    unit, link = scenario.radio.link_kind.unit, metrics.get("link")
    lasts = duration(metrics["air_seconds"])
    rows = [("on the air", f"{metrics['symbols_per_slot']:,} {unit} per slot, {lasts} in total")]
    rows += [(f"  {name}", text) for name, text in acquisition_rows(scenario)]
    if link:
        from airmixml.radio.links import link_rows

        rows += [(f"  {name}", text) for name, text in link_rows(link)]
    if rounds := metrics.get("rounds"):
        up, down = rounds["symbols_per_round"], rounds["downlink_bits_per_round"]
        rows += [
            ("  a round", f"{up:,.0f} {unit} up; {down:,.0f} bits down, the model for all workers"),
            ("", f"workers must be reachable {metrics['slots'] + scenario.workers.centre_on_air:,} times"),
        ]
    return rows
