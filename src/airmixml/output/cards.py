"""What a page says of a scenario: privacy cards, and the command that makes a result again, as its files tell it.

A card has an epsilon with what it assumes, in the words of the statements, and what it means for a person.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from airmixml.messages import NO_GUARANTEE, NO_PROTECTION_ABOVE_EPSILON, AirMixError, against, epsilon_text, withstands
from airmixml.output.page import Card, Rows
from airmixml.privacy import PrivacyStatement
from airmixml.privacy.statements import exceeds
from airmixml.registries import ADVERSARIES
from airmixml.scenario import Scenario, preset_names
from airmixml.scenario.toml import value_text

NOTHING: Final = "nothing is promised"
# As docs/concepts.md has them.
NEIGHBOURS: Final = {
    "replace-one": "replace-one: one worker holds another sample",
    "remove-one": "remove-one: one worker is absent",
}
_NO_CLAIM: Final = "No accountant certifies an epsilon against this adversary: assume that it learns everything."
_BRIEFLY: Final = ("why", "assumes", "median worker", "a row of the data", "one of its rows", "a person")
_NEARLY_ALWAYS: Final = 0.999
_CHANGED: Final = {"replace-one": "held another sample", "remove-one": "were absent"}
_ASKED: Final = {
    "replace-one": "Asked which of two samples a worker holds",
    "remove-one": "Asked whether a worker took part",
}
FROM_FILE: Final = "scenario.toml"  # in a command that reads the scenario which the report shows
_MOST_CHANGES: Final = 12


def cards_of(
    statements: Sequence[PrivacyStatement], scenario: Scenario, more: Mapping[str, Rows] | None = None
) -> tuple[Card, ...]:
    """Return a card for each adversary, that of the target first; ``more`` has further facts by adversary.

    The epsilon of a card is the smallest that any accountant certifies for the scenario's neighbours. Adversaries
    against whom nothing is certified have a card that says so.
    """
    stated: dict[str, list[PrivacyStatement]] = {scenario.privacy.adversary: []}
    for each in statements:
        stated.setdefault(each.adversary, []).append(each)
    for name in ADVERSARIES.names:
        stated.setdefault(name, [])
    return tuple(_card(name, found, scenario, (more or {}).get(name, ())) for name, found in stated.items())


def _card(adversary: str, statements: Sequence[PrivacyStatement], scenario: Scenario, extra: Rows) -> Card:
    alike = [each for each in statements if each.adjacency == scenario.privacy.adjacency] or statements
    if not alike:
        return claimed_card(adversary, None, scenario, extra=extra)
    best = min(alike, key=lambda each: each.epsilon)
    facts = [("knows", best.knows), ("trust", trust(scenario, adversary, hidden_schedule=best.sampling_rate < 1.0))]
    if met := next((each for each in (best, *statements) if each.target_epsilon is not None), None):
        facts.append(
            ("target", f"epsilon {met.target_epsilon:g}; by {met.accountant} it is {epsilon_text(met.epsilon)}")
        )
    told = next((each for each in (met, best, *statements) if each is not None and each.if_better), best)
    facts += [("receiver", told.receiver_in_words)] if told.receiver_in_words else []
    told = next((each for each in (met, best, *statements) if each is not None and each.if_withstood is not None), best)
    facts += withstood_rows(told.withstands, told.if_withstood, scenario)
    details = [
        ("accountant", f"{best.accountant}, sensitivity {best.sensitivity:g}"),
        ("because", best.why),
        ("noise", f"{best.noise_watts_per_symbol:.3g} W per symbol"),
        ("given", best.given),
    ]
    others = [each for each in statements if each is not best]
    said = dict.fromkeys(
        f"{epsilon_text(each.epsilon)} ({each.accountant})" for each in others if each.adjacency == best.adjacency
    )
    details += [("other accountants", ", ".join(said))] if said else []
    for adjacency in dict.fromkeys(each.adjacency for each in others if each.adjacency != best.adjacency):
        least = min((each for each in others if each.adjacency == adjacency), key=lambda each: each.epsilon)
        details.append((f"{adjacency} neighbours", f"epsilon {epsilon_text(least.epsilon)} ({least.accountant})"))
    about: dict[str, Any] = {"delta": best.delta, "adjacency": best.adjacency, "details": tuple(details)}
    return claimed_card(adversary, best.epsilon, scenario, extra=(*facts, *extra), **about)


def target_notices(epsilon: float, target: float | None, releases: int = 1) -> tuple[str, ...]:
    """Return that a target was missed, where it was: by one release, or by so many together."""
    told = "Target missed" + (f" by {releases:,} releases together" if releases > 1 else "")
    return (f"{told}.",) if target is not None and exceeds(epsilon, target) else ()


def delta_notices(delta: float, workers: int) -> tuple[str, ...]:
    """Return what a reader must know of a delta that so many workers make too large."""
    told = f"Delta is not below 1 in {workers:,} workers: it permits revealing a worker outright."
    return (told,) if delta * workers >= 1.0 else ()


def claimed_card(
    adversary: str,
    epsilon: float | None,
    scenario: Scenario,
    *,
    delta: float | None = None,
    adjacency: str = "",
    extra: Rows = (),
    details: Rows = (),
    text: str = "",
    words: str = "",
) -> Card:
    """Return the card of an epsilon against one adversary; None or infinity is no claim.

    Delta and neighbours are the scenario's where they are not given; ``text`` stands for the epsilon where there are
    several, ``words`` before what it means.
    """
    certified = epsilon is not None and math.isfinite(epsilon)
    epsilon = epsilon if epsilon is not None else math.inf
    delta = scenario.privacy.delta if delta is None else delta
    adjacency = adjacency or scenario.privacy.adjacency
    told = [
        ("delta", f"{delta:.3g}: the probability with which that may fail"),
        ("neighbours", NEIGHBOURS.get(adjacency, adjacency)),
    ]
    told += [] if "trust" in dict(extra) else [("trust", trust(scenario, adversary))]
    promise, level = promise_of(epsilon)
    return Card(
        adversary=adversary,
        who=ADVERSARIES.load(adversary).about if adversary in ADVERSARIES else "",  # methods are compared with others
        epsilon=text or (epsilon_text(epsilon) if certified else NO_GUARANTEE),
        promise=promise,
        level=level,
        is_target=adversary == scenario.privacy.adversary,
        words=words + (meaning(epsilon, delta, adjacency) if certified else _NO_CLAIM),
        facts=(*told, *extra) if certified or text else extra,
        details=details,
    )


def card_rows(cards: Iterable[Card]) -> Rows:
    """Return cards for a terminal: of the target's what its epsilon rests on, of the others whom it protects."""
    rows = []
    for card in cards:
        stated = NO_GUARANTEE if card.epsilon == NO_GUARANTEE else f"epsilon {card.epsilon} ({card.promise})"
        rows.append((against(card.adversary), stated))
        about = [*card.facts, *card.details[:3]] if card.is_target else card.facts
        rows += [(f"  {name}", value) for name, value in about if card.is_target or name in _BRIEFLY]
    return rows


def withstood_rows(colluders: int | None, epsilon: float | None, scenario: Scenario) -> Rows:
    """Return how many colluders a design withstands, and its epsilon then; nothing of one without masks."""
    if colluders is None:
        return ()
    then = "" if epsilon is None else f": epsilon {epsilon_text(epsilon)} then"
    return (("colluders", withstands(colluders, scenario.radio.scheduled) + then),)


def promise_of(epsilon: float) -> tuple[str, str]:
    """Return how much an epsilon promises, in words and for colours: 1 is a strong promise, 10 a weak one."""
    if not math.isfinite(epsilon):
        return NOTHING, "none"
    if epsilon > NO_PROTECTION_ABOVE_EPSILON:
        return "protects nobody", "none"
    shown = float(f"{epsilon:.3g}")  # a target of 10 is met from just below
    if shown >= 10.0:
        return "weak promise", "weak"
    return ("strong promise", "strong") if shown <= 1.0 else ("moderate promise", "moderate")


def meaning(epsilon: float, delta: float, adjacency: str) -> str:
    """Return what an adversary can conclude at most.

    Of two equally likely cases it names the right one with probability (e^epsilon + delta) / (e^epsilon + 1) or less:
    P(right) = (P(1 | 1) + P(2 | 2)) / 2, with P(1 | 1) <= e^epsilon P(1 | 2) + delta and likewise for 2.
    """
    if epsilon > NO_PROTECTION_ABOVE_EPSILON:
        return "An epsilon this large protects nobody."
    right, asked = right_at_most(epsilon, delta), _ASKED.get(adjacency, "Asked which")
    if right > _NEARLY_ALWAYS:
        return f"{asked}, it may be right nearly always (guessing: half of the time)."
    at_most = math.ceil(1000.0 * right - 1e-9) / 10.0  # a bound from above
    return (
        f"If one worker {_CHANGED.get(adjacency, 'differed')}, nothing that this adversary receives would become more "
        f"than {math.exp(epsilon):.3g} times as likely, but for delta. {asked}, "
        f"it is right at most {at_most:.1f} % of the time (guessing: 50 %)."
    )


def right_at_most(epsilon: float, delta: float) -> float:
    """Return the largest probability of naming the right one of two equally likely cases."""
    return (1.0 + delta * math.exp(-epsilon)) / (1.0 + math.exp(-epsilon))


def trust(scenario: Scenario, adversary: str, *, hidden_schedule: bool = False) -> str:
    """Return what must be true for the epsilon to hold."""
    said: str = scenario.privacy.noise_kind.trust(scenario.privacy, adversary)
    return said + ", and that nobody tells it the schedule" * hidden_schedule


def asked_for(scenario: Scenario) -> str:
    """Return the scenario's privacy target in one line."""
    privacy = scenario.privacy
    if not scenario.mixing.power_policy.keeps_target:
        return f'no target: mixing.power = "{scenario.mixing.power}"'
    return (
        f"epsilon {privacy.epsilon:g}, delta {privacy.delta:.3g} {against(privacy.adversary)}, by "
        f"{privacy.accountant}, {privacy.adjacency} neighbours"
    )


def command_for(command: str, scenario: Scenario, *options: str) -> tuple[str, ...]:
    """Return an ``airmix`` command of a scenario: a preset with changes, or a file where those are too many."""
    chosen: tuple[str, ...] = (FROM_FILE,)
    if scenario.name in preset_names():
        preset, air = Scenario.preset(scenario.name), scenario.air.preset
        with suppress(AirMixError):  # such as an air that no longer comes with the package
            # Another air is named first, since it brings keys of its own.
            before = [] if air == preset.air.preset else [f"air.preset={air}"]
            was = flat(preset.on_air(air) if before else preset)
            changed = {key: value for key, value in flat(scenario).items() if value != was[key]}
            changes = before + [f"{key}={shown_value(value)}" for key, value in changed.items()]
            if len(changes) <= _MOST_CHANGES and preset.with_overrides(*changes) == scenario:
                chosen = ("--preset", scenario.name, *(word for each in changes for word in ("--set", each)))
    return ("airmix", command, *chosen, *options)


def seeds_option(count: int) -> tuple[str, ...]:
    """Return the option for so many seeds."""
    return ("--seeds", str(count)) if count > 1 else ()


def flat(scenario: Scenario) -> dict[str, Any]:
    """Return every key as it is written after ``--set``, with its value."""
    found: dict[str, Any] = {}
    for name, value in scenario.to_dict().items():
        found |= {f"{name}.{key}": each for key, each in value.items()} if isinstance(value, dict) else {name: value}
    return found


def shown_value(value: Any) -> str:
    """Return a value of a key as ``--set`` takes it."""
    return json.dumps(value) if isinstance(value, list | bool) else value_text(value)
