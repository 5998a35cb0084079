"""What a scenario means for analog frames: what an emulated air carries of it, and the kinds of a contract."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from airmixml.arrays import dbm_to_watts
from airmixml.data import DataSet
from airmixml.deploy.baseband import AnalogKind
from airmixml.deploy.contract import UNITS
from airmixml.errors import ScenarioError
from airmixml.radio.draws import AirSetting, draw_slots, slots_of_rounds
from airmixml.radio.system import System
from airmixml.scenario import Scenario
from airmixml.streams import Streams
from airmixml.workers import declared_bounds, deploy

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
            '"workers" with privacy.adversary = "everyone"'
        )


def analog_kinds(
    scenario: Scenario, dataset: DataSet, releases: Sequence[int], *, public: bool = False
) -> tuple[list[AnalogKind], list[float]]:
    """Return the kinds of frames of a scenario whose workers all send in every slot, and the gains of their channels.

    What a frame costs is what it tells a hub that hears it by itself: nothing but the worker's own noise is on it. Of
    ``public`` data it costs nothing.
    """
    population = deploy(scenario.workers, dataset, Streams(scenario.seed))
    where = dataset.input_dim, dataset.label_dim, population.distance_metres
    settings = [(AirSetting.of(scenario, *where), range(scenario.radio.slots))]
    if scenario.learner.rounds:
        settings.append((AirSetting.of_rounds(scenario, *where), slots_of_rounds(scenario)))
    moves = System.of(scenario, dataset.input_dim, dataset.label_dim).sensitivity
    apart = moves.squared_move(scenario.privacy.adjacency, "none") / moves.removal
    kinds = []
    for (setting, slots), count in zip(settings, releases, strict=True):
        bound = declared_bounds(setting.scenario.workers, dataset.input_dim)[0]
        norm, masking = math.sqrt(setting.signal.largest_squared_norm(bound)), setting.masking
        drawn, own = draw_slots(setting, slots[:1]).numpy(), 0.0 if masking is None else masking.own_watts
        watts = float(drawn.power_scale_watts[0]) * float(drawn.ratios[0].min()) ** 2 * (1.0 - _SOFTER)
        kinds.append(
            AnalogKind(
                sends=setting.scenario.workers.sends,
                numbers=setting.signal.symbols,
                norm=norm,
                watts=watts,
                limit_watts=float(dbm_to_watts(scenario.radio.max_power_dbm)),
                own_watts=own,
                receiver_watts=scenario.privacy.noise_kind.drawn_watts(setting.scenario),
                workers=scenario.radio.scheduled,
                cost=0 if public or not own else math.ceil(UNITS * apart * norm**2 * watts / own * _ROUNDING),
                releases=count,
            )
        )
    return kinds, [float(each) ** 2 for each in settings[0][0].worker_path_gain]
