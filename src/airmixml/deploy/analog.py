"""What a scenario means for analog frames: samples, masks and powers of each slot, and means from received sums.

Slots, shares and powers are those that a simulation of the same seed draws, so that both can be put side by side.
"""

import math
from collections.abc import Sequence
from typing import Final

from airmixml.data import DataSet
from airmixml.deploy.contract import UNITS
from airmixml.deploy.kinds import AnalogKind
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


def analog_kinds(scenario: Scenario, dataset: DataSet, releases: Sequence[int]) -> tuple[list[AnalogKind], list[float]]:
    """Return the kinds of frames of a scenario whose workers all send in every slot, and the gains of their channels.

    What a frame costs is what it tells a hub that hears it by itself: nothing but the worker's own noise is on it.
    """
    population = deploy(scenario.workers, dataset, Streams(scenario.seed))
    where = dataset.input_dim, dataset.label_dim, population.distance_metres
    settings = [(AirSetting.of(scenario, *where), range(1))]
    if scenario.learner.rounds:
        settings.append((AirSetting.of_rounds(scenario, *where), slots_of_rounds(scenario)[:1]))
    moves = System.of(scenario, dataset.input_dim, dataset.label_dim).sensitivity
    apart = moves.squared_move(scenario.privacy.adjacency, "none") / moves.removal
    kinds = []
    for (setting, slot), count in zip(settings, releases, strict=True):
        signal, workers = setting.signal, setting.scenario.workers
        norm = math.sqrt(signal.largest_squared_norm(declared_bounds(workers, dataset.input_dim)[0]))
        drawn = draw_slots(setting, slot).numpy()
        watts = float(drawn.power_scale_watts[0]) * float(drawn.ratios[0].min()) ** 2 * (1.0 - _SOFTER)
        own = 0.0 if setting.masking is None else setting.masking.own_watts
        kinds.append(
            AnalogKind(
                sends=workers.sends,
                numbers=signal.symbols,
                norm=norm,
                watts=watts,
                own_watts=own,
                receiver_watts=scenario.privacy.noise_kind.drawn_watts(setting.scenario),
                workers=scenario.radio.scheduled,
                cost=math.ceil(UNITS * apart * norm**2 * watts / own * _ROUNDING) if own else 0,
                releases=count,
            )
        )
    return kinds, [float(each) ** 2 for each in settings[0][0].worker_path_gain]
