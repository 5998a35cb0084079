"""What is claimed of an attacked setting, to stand beside what was found."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final

from airmixml.attacks.parts import Part, PartStore
from airmixml.attacks.verdict import ADVERSARIES
from airmixml.data import DataSet
from airmixml.errors import PrivacyError
from airmixml.privacy import state_privacy
from airmixml.radio.centring import with_centring
from airmixml.radio.privacy_target import adversary_named, slots_target
from airmixml.radio.rehearsal import rehearse
from airmixml.scenario import Scenario
from airmixml.workers import encoded_dim

_CLAIMS: Final = "claims"


def claims_of_case(store: PartStore, number: int, scenario: Scenario, dataset: DataSet) -> dict[str, Any]:
    """Return the least epsilon that is certified against each adversary, for the schedule that was drawn."""
    known = store.load(number, _CLAIMS)
    if known is not None:
        return known.figures
    tally = rehearse(scenario, encoded_dim(scenario.workers, dataset.held_dim), dataset.label_dim)
    claims: dict[str, Any] = {"delta": slots_target(scenario)[1], "adjacency": scenario.privacy.adjacency}
    for name in ADVERSARIES:
        epsilons = []
        told = name == "server" or tally.design.power_tells_schedule
        for accountant in ("gdp",) if told else ("gdp", "pld"):
            with suppress(PrivacyError):
                stated = state_privacy(
                    tally.design,
                    adversary_named(name, scenario),
                    accountant,
                    adjacency=scenario.privacy.adjacency,
                    delta=slots_target(scenario)[1],
                )
                epsilons.append(with_centring(stated, tally.centring).epsilon)
        claims[name] = min(epsilons, default=None)
    store.save(number, _CLAIMS, Part(figures=claims, arrays={}))
    return claims
