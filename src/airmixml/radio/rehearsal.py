"""A transmission without data: who is scheduled, with which ratios and powers, tallied as the real one would be."""

from collections.abc import Callable, Sequence
from contextlib import closing

from airmixml.arrays import Doubles, Integers
from airmixml.engines import Engine
from airmixml.progress import Progress, silent
from airmixml.radio.draws import AirSetting, check_family, draw_blocks, shards_of, suitable_block
from airmixml.radio.tally import Tally
from airmixml.scenario import Scenario
from airmixml.streams import Streams
from airmixml.sums import Sums
from airmixml.workers import place_workers


def rehearse(
    scenario: Scenario,
    input_dim: int,
    label_dim: int,
    *,
    progress: Progress = silent,
    engine: Engine | None = None,
    holding: Integers | None = None,
) -> Tally:
    """Return the tally of all slots, the same that ``simulate`` with that seed would have; no data set is read.

    An ``engine`` that is not this process draws the slots in shards. ``holding`` is the row that each worker holds.
    """
    if engine is None or engine.here:
        return rehearse_family([scenario], input_dim, label_dim, progress=progress, holding=holding)[0]
    distance_metres, slots = placed_distances(scenario), scenario.radio.slots
    setting = AirSetting.of(scenario, input_dim, label_dim, distance_metres)
    watts = setting.private_received_watts
    tally = Tally(scenario, input_dim, label_dim, distance_metres, received_watts=watts, holding=holding)
    shards = shards_of(setting)
    with closing(engine.run_in_order(prepare_draws, (setting, input_dim, label_dim, holding), shards)) as drawn:
        for sums in drawn:
            tally.merge(sums)
            progress("rehearsal", tally.slots, slots)
    return tally


def prepare_draws(shared: tuple[AirSetting, int, int, Integers | None]) -> Callable[[range], Sums]:
    """Return what draws and tallies the slots of some chapters."""
    setting, input_dim, label_dim, holding = shared

    def tallied(chapters: range) -> Sums:
        watts = setting.private_received_watts
        part = Tally(setting.scenario, input_dim, label_dim, received_watts=watts, holding=holding, part=True)
        for draws in draw_blocks(setting, suitable_block(setting), chapters=chapters):
            part.add_draws(draws)
        return part.sums()

    return tallied


def rehearse_family(
    scenarios: Sequence[Scenario],
    input_dim: int,
    label_dim: int,
    *,
    progress: Progress = silent,
    holding: Integers | None = None,
) -> list[Tally]:
    """Rehearse scenarios that differ only in power, privacy target and learner; all else is drawn once."""
    check_family(scenarios)
    distance_metres = placed_distances(scenarios[0])
    settings = [AirSetting.of(scenario, input_dim, label_dim, distance_metres) for scenario in scenarios]
    tallies = [
        Tally(
            each.scenario,
            input_dim,
            label_dim,
            distance_metres,
            received_watts=each.private_received_watts,
            holding=holding,
        )
        for each in settings
    ]
    for draws in draw_blocks(settings[0], suitable_block(settings[0])):
        for setting, tally in zip(settings, tallies, strict=True):
            tally.add_draws(draws if setting is settings[0] else draws.powered_as(setting))
        progress("rehearsal", tallies[0].slots, scenarios[0].radio.slots)
    return tallies


def placed_distances(scenario: Scenario) -> Doubles:
    """Return how far from the server the seed places each worker; shape workers."""
    workers = scenario.workers
    return place_workers(
        workers.count, workers.side_metres, workers.min_distance_metres, Streams(scenario.seed).generator("placement")
    )
