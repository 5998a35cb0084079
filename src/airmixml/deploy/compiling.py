"""From a scenario to a contract: step, bits, noise and rules are derived once, by the owner, with all of the package.

A round may be smaller than planned, because a worker is off when it begins. Noise is such that ``carriers`` honest
workers hide one; so of a round of n workers at most n - colluders - carriers may be absent later, whatever n is.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from operator import mul
from pathlib import Path
from typing import Final

from airmixml.data import Bounded, DataSet
from airmixml.deploy.air import AnalogKind
from airmixml.deploy.contract import UNITS, Contract, Member
from airmixml.deploy.frames import FrameKind
from airmixml.integers.integer_noise import rounded_mu_per_step
from airmixml.masks.graph import draw_graph, who_is_left
from airmixml.masks.rules import Rules, choose_rules, is_recoverable, recovering_degree
from airmixml.messages import ProtocolError, ScenarioError, plural
from airmixml.privacy.evaluation import settled_epsilon
from airmixml.privacy.facts import SHARE_FOR_TAILS, log_cut
from airmixml.privacy.gaussian import gaussian_epsilon, gaussian_mu
from airmixml.radio.draws import AirSetting, draw_slots, slots_of_rounds
from airmixml.radio.system import System
from airmixml.scenario import Scenario
from airmixml.streams import Streams
from airmixml.workers import declared_bounds, deploy, load_dataset, settle
from airmixml.workers.loading import check_protectable

_MOST_SIZES: Final = 16  # of rounds that are smaller than planned
_ROUNDED_UP: Final = 1.0 + 1e-5
_ROUNDING: Final = 1.0 + 1e-12
_SOFTER: Final = 1e-9  # than the most that keeps the target, which rounding might exceed


def planned_for(scenario: Scenario, workers: int) -> Scenario:
    """Return the scenario for so many workers, all of which send in every slot; refuse what cannot be deployed."""
    found = replace(
        scenario, workers=replace(scenario.workers, count=workers), radio=replace(scenario.radio, scheduled=workers)
    )
    privacy, radio = found.privacy, found.radio
    musts = [("workers.sends", found.workers.sends, "moments")]
    if radio.link == "analog" and privacy.arithmetic == "real":
        protects = privacy.noise_kind.brought or found.mixing.power_policy.keeps_target
        if protects and not (privacy.noise_kind.brought and privacy.adversary == "everyone"):
            raise ScenarioError(
                f'privacy.noise = "{privacy.noise}" against "{privacy.adversary}": protects nobody on an emulated air, '
                "whose hub hears every frame by itself; what a worker adds by itself would hold: use privacy.noise = "
                '"workers" with privacy.adversary = "everyone"'
            )
        if not found.air.is_ideal:
            raise ScenarioError(f'air.preset = {found.air.preset}: must be "ideal" on an emulated air')
        musts += [("radio.schedule", radio.schedule, "fixed"), ("radio.fading", radio.fading, "none")]
        musts += [("workers.bits", str(found.workers.bits), "0"), ("mixing.policy", found.mixing.policy, "equalmix")]
        if protects:  # by noise alone: masks cancel in sums of integers
            musts += [("privacy.noise", privacy.noise, "workers")]
            musts += [("privacy.sensitivity", privacy.sensitivity, "encoder")]
    else:
        musts += [("privacy.noise", privacy.noise, "masked"), ("privacy.arithmetic", privacy.arithmetic, "integers")]
        musts += [("radio.link", radio.link, "digital")]
    for key, value, must in musts:
        if value != must:
            raise ScenarioError(f'{key} = "{value}": must be "{must}" to be deployed; see docs/deploy.md')
    if found.workers.task == "multi-label":
        raise ScenarioError('workers.task = "multi-label": must be "classification" or "regression" to be deployed')
    check_protectable(replace(found.workers, holding="dealt"))  # devices hold their own rows, however they got them
    return settle(found)


def data_of(scenario: Scenario, data_dir: Path | None = None) -> DataSet:
    """Return the data that the scenario names: for their format, to score on, or to deal out in a trial."""
    return load_dataset(scenario.workers, Streams(scenario.seed), data_dir=data_dir)


def make_contract(
    scenario: Scenario,
    dataset: DataSet,
    keys: Mapping[str, bytes],
    server_key: bytes,
    *,
    epsilon: float = 0.0,
    spare: int = 0,
) -> Contract:
    """Return the contract of a settled scenario and workers with these verifying keys, by name.

    ``epsilon`` is that of each worker's budget (0: the scenario's), which covers ``spare`` rounds that failed.
    """
    if spare < 0:
        raise ScenarioError(f"--spare = {spare}: must be 0 or more rounds")
    if not epsilon >= 0.0:
        raise ScenarioError(f"--epsilon = {epsilon:g}: must be above 0 (0: the scenario's)")
    assert dataset.row_format is not None  # of a data set that a scenario names
    system = System.of(scenario, dataset.input_dim, dataset.label_dim)
    systems = [system, system.of_rounds] if system.rounds else [system]
    planned = [scenario.radio.slots, system.rounds][: len(systems)]
    epsilon, delta = epsilon or scenario.privacy.epsilon, scenario.privacy.delta
    releases = [count + spare for count in planned]
    names = 2 * (sum(planned) + spare)
    rules, failure, carriers, tails = list[Rules](), 0.0, 1, 0.0
    analog = list[AnalogKind]()
    if system.integers is None:
        analog = _analog_kinds(scenario, dataset, releases)
    else:
        carriers, tails = system.integers.carriers, SHARE_FOR_TAILS
        rules, failure = _rules(scenario, carriers)
    rounded = sum(count * each.signal.symbols for count, each in zip(releases, systems, strict=True))
    failing = names * failure
    kept = (delta - failing) * (1.0 - tails)
    protects = not analog or any(each.cost for each in analog)
    budget = math.floor(UNITS * gaussian_mu(epsilon, kept) ** 2) if protects else 0

    def kinds_for(assumed: float) -> tuple[Sequence[FrameKind | AnalogKind], int]:
        """Return kinds of frames, and what all of them cost, if no epsilon above this is stated."""
        found: Sequence[FrameKind | AnalogKind] = analog
        if not analog:
            cut = log_cut(rounded, assumed, delta - failing)
            found = [_kind(each, cut, count) for each, count in zip(systems, releases, strict=True)]
        costs = [kind.cost for kind in found]
        return found, sum(map(mul, costs, planned)) + spare * max(costs)

    kinds, needed = kinds_for(epsilon)
    if needed > budget:
        least = settled_epsilon(lambda assumed: gaussian_epsilon(math.sqrt(kinds_for(assumed)[1] / UNITS), kept))
        raise ProtocolError(
            f"epsilon = {epsilon:g} of the workers' budget: must be at least {least * _ROUNDED_UP:.6g} for the frames "
            f"of the scenario and {plural(spare, 'spare round')}; raise it, or use a smaller privacy.epsilon"
        )
    return Contract(
        scenario=scenario.to_toml(),
        rows=json.loads(json.dumps(asdict(dataset.row_format), default=lambda bounds: bounds.tolist())),
        outputs=dataset.class_names,
        targets=(code.lower, code.upper) if isinstance(code := dataset.label_code, Bounded) else None,
        kinds=tuple(kinds),
        rules=tuple(rules),
        budget=budget,
        epsilon=epsilon if protects else 0.0,
        delta=delta if protects else 0.0,
        carriers=carriers,
        most_rounds=names,
        power_dbm=scenario.radio.max_power_dbm,
        server_key=server_key.hex(),
        members=tuple(Member(name=name, verifying_key=key.hex()) for name, key in keys.items()),
    )


def _kind(system: System, cut: float, releases: int) -> FrameKind:
    """Return one kind of frame, with the loss of one worker by ``integers.integer_noise``, rounded up."""
    sums, privacy = system.integers, system.scenario.privacy
    assert sums is not None
    code, moves = sums.noise.code, system.sensitivity
    distance = math.sqrt(moves.squared_move(privacy.adjacency, "none") / moves.removal)
    mu = distance * code.steps * rounded_mu_per_step(sums.carriers * sums.noise.variance_per_worker, cut)
    return FrameKind(
        **asdict(code),
        sends=system.scenario.workers.sends,
        variance=sums.noise.variance_per_worker,
        cost=math.ceil(UNITS * mu**2 * _ROUNDING),
        releases=releases,
    )


def _analog_kinds(scenario: Scenario, dataset: DataSet, releases: Sequence[int]) -> list[AnalogKind]:
    """Return the kinds of frames of a scenario whose workers all send in every slot.

    What a frame costs is what it tells a hub that hears it by itself: nothing but the worker's own noise is on it.
    Without that it protects nobody, and costs nothing.
    """
    population = deploy(scenario.workers, dataset, Streams(scenario.seed))
    where = dataset.input_dim, dataset.label_dim, population.distance_metres
    settings = [(AirSetting.of(scenario, *where), range(scenario.radio.slots))]
    if scenario.learner.rounds:
        settings.append((AirSetting.of(scenario, *where, in_rounds=True), slots_of_rounds(scenario)))
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
                own_watts=own,
                receiver_watts=scenario.privacy.noise_kind.drawn_watts(setting.scenario),
                workers=scenario.radio.scheduled,
                cost=0 if not own else math.ceil(UNITS * apart * norm**2 * watts / own * _ROUNDING),
                releases=count,
            )
        )
    return kinds


def _rules(scenario: Scenario, carriers: int) -> tuple[list[Rules], float]:
    """Return the rules of rounds of all workers, and of fewer, down to those that carry the noise.

    With them the probability that the graph of one round of the worst size fails a worker.
    """
    privacy, most = scenario.privacy, scenario.workers.count
    colluders = min(privacy.colluders, most - 1)
    fewest = carriers + colluders
    step = max(1, math.ceil((most - fewest) / (_MOST_SIZES - 1)))
    found, failure = [], 0.0
    for size in sorted({*range(most, fewest, -step), fewest}, reverse=True):
        absent = size - fewest
        degree = privacy.mask_degree or recovering_degree(size, colluders, absent)
        graph = draw_graph(size, degree, scenario.seed)
        if is_recoverable(size, graph.degree, colluders, absent):
            who = {"colluders": colluders, "absent": absent}
            found.append(choose_rules(graph, **who, mask_deviation=1.0, self_deviation=1.0))
            failure = max(failure, who_is_left(graph, colluders, absent).failure)
    if not found:
        raise ScenarioError(
            f"privacy.most_absent = {privacy.most_absent:g}: leaves too few of {most} workers to recover masks; use a "
            "smaller share"
        )
    return found, failure
