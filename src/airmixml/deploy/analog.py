"""What a scenario means for analog frames: what an emulated air carries of it, and the kinds of a contract."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from airmixml.data import DataSet
from airmixml.deploy.contract import UNITS
from airmixml.deploy.kinds import AnalogKind
from airmixml.errors import ScenarioError
from airmixml.radio.draws import AirSetting, draw_slots, slots_of_rounds
from airmixml.radio.system import System
from airmixml.scenario import Scenario
from airmixml.streams import Streams
from airmixml.workers import Population, declared_bounds, deploy

_SOFTER: Final = 1e-9  # than the most that keeps the target, which rounding might exceed
_ROUNDING: Final = 1.0 + 1e-12
NOBODY_PROTECTED: Final = (
    "public data in a lab: nobody is protected; the hub of an emulated air hears every frame by itself"
)


def for_workers(scenario: Scenario, workers: int) -> Scenario:
    """Return the scenario with so many workers, all of whom send in every slot."""
    return replace(
        scenario,
        workers=replace(scenario.workers, count=workers),
        radio=replace(scenario.radio, scheduled=workers),
    )


def check_emulated(scenario: Scenario, *, protects: bool) -> None:
    """Refuse what an emulated air does not carry, and protection that it does not give."""
    privacy, radio = scenario.privacy, scenario.radio
    for key, value, must, fits in (
        ("radio.link", radio.link, '"analog"', radio.link == "analog"),
        ("privacy.arithmetic", privacy.arithmetic, '"real"', privacy.arithmetic == "real"),
        ("air.preset", scenario.air.preset, '"ideal"', scenario.air.is_ideal),
        ("radio.schedule", radio.schedule, '"fixed"', radio.schedule == "fixed"),
        ("workers.bits", scenario.workers.bits, "0", not scenario.workers.bits),
    ):
        if not fits:
            raise ScenarioError(f"{key} = {value}: must be {must} for complex baseband on an emulated air")
    if protects and not (privacy.noise_kind.brought and privacy.adversary == "everyone"):
        raise ScenarioError(
            f'privacy.noise = "{privacy.noise}" against "{privacy.adversary}": protects nobody on an emulated air, '
            "whose hub hears every frame by itself; what a worker adds by itself would hold: use privacy.noise = "
            '"workers" (or "masked" in a trial) with privacy.adversary = "everyone"'
        )


def settings_of(scenario: Scenario, dataset: DataSet, population: Population) -> list[tuple[AirSetting, range]]:
    """Return how each kind of frame is sent, and its slots as a simulation numbers them."""
    where = dataset.input_dim, dataset.label_dim, population.distance_metres
    found = [(AirSetting.of(scenario, *where), range(scenario.radio.slots))]
    if scenario.learner.rounds:
        found.append((AirSetting.of(scenario, *where, in_rounds=True), slots_of_rounds(scenario)))
    return found


def agreed_values(setting: AirSetting) -> dict[str, Any]:
    """Return the values of a kind that its powers have no part in."""
    scenario, masking = setting.scenario, setting.masking
    return {
        "sends": scenario.workers.sends,
        "numbers": setting.signal.symbols,
        "own_watts": 0.0 if masking is None else masking.own_watts,
        "receiver_watts": scenario.privacy.noise_kind.drawn_watts(scenario),
        "workers": scenario.radio.scheduled,
    }


def analog_kinds(scenario: Scenario, dataset: DataSet, releases: Sequence[int]) -> tuple[list[AnalogKind], list[float]]:
    """Return the kinds of frames of a scenario whose workers all send in every slot, and the gains of their channels.

    What a frame costs is what it tells a hub that hears it by itself: nothing but the worker's own noise is on it.
    """
    settings = settings_of(scenario, dataset, deploy(scenario.workers, dataset, Streams(scenario.seed)))
    moves = System.of(scenario, dataset.input_dim, dataset.label_dim).sensitivity
    apart = moves.squared_move(scenario.privacy.adjacency, "none") / moves.removal
    kinds = []
    for (setting, slots), count in zip(settings, releases, strict=True):
        bound = declared_bounds(setting.scenario.workers, dataset.input_dim)[0]
        norm, values = math.sqrt(setting.signal.largest_squared_norm(bound)), agreed_values(setting)
        drawn, own = draw_slots(setting, slots[:1]).numpy(), values["own_watts"]
        watts = float(drawn.power_scale_watts[0]) * float(drawn.ratios[0].min()) ** 2 * (1.0 - _SOFTER)
        cost = math.ceil(UNITS * apart * norm**2 * watts / own * _ROUNDING) if own else 0
        kinds.append(AnalogKind(norm=norm, watts=watts, cost=cost, releases=count, **values))
    return kinds, [float(each) ** 2 for each in settings[0][0].worker_path_gain]
