"""What a page can offer: presets, airs, and the keys of a design with their rules and meanings."""

from collections.abc import Iterator
from dataclasses import fields
from typing import Any, Final

from airmixml.registries import DATASETS
from airmixml.scenario import AIR_PRESETS, air_summary, preset_names, preset_summary
from airmixml.scenario.rules import Choice
from airmixml.scenario.tables import TABLES
from airmixml.version import __version__

KEYS: Final = (
    *("workers.dataset", "workers.count", "workers.side_metres", "workers.encoder", "workers.features"),
    *("workers.sends", "workers.label_weight"),
    *("radio.slots", "radio.scheduled", "radio.schedule", "radio.slot_seconds", "radio.fading", "radio.rician_k"),
    *("radio.noise_dbm", "radio.max_power_dbm", "radio.path_loss_exponent"),
    *("mixing.policy", "mixing.alpha", "mixing.assignment", "mixing.power"),
    *("privacy.epsilon", "privacy.delta", "privacy.adversary", "privacy.accountant", "privacy.adjacency"),
    *("privacy.sensitivity", "privacy.noise", "privacy.colluders", "privacy.eavesdropper_distance_metres"),
    *("privacy.eavesdropper_antennas", "learner.model", "learner.epochs"),
)


def choices() -> dict[str, Any]:
    """Return what can be chosen, as plain values."""
    return {
        "version": __version__,
        "presets": [{"name": name, "about": preset_summary(name)} for name in preset_names()],
        "airs": [{"name": name, "about": air_summary(name)} for name in AIR_PRESETS],
        "keys": dict(_described()),
    }


def _described() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each key with its meaning, and what it may be where that is one of a few words."""
    for key in KEYS:
        table, _, name = key.partition(".")
        declared = next(each for each in fields(TABLES[table]) if each.name == name)
        rule = declared.metadata["rule"]
        words = list(rule.words) if isinstance(rule, Choice) else []
        if key == "workers.dataset":
            words = list(DATASETS.names)
        yield key, {"about": declared.metadata["doc"], "words": words, "whole": declared.type in (int, "int")}
