"""Methods that are scenarios of this package: the scenario itself, samples instead of moments, the paper's own way."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Final

from airmixml.compare.baselines.rounds import exact_accountant, fewest_participations
from airmixml.compare.baselines.separate import closed_form_learner
from airmixml.compare.work import Outcome, Work
from airmixml.doors import ADVERSARIES
from airmixml.edge import learn
from airmixml.errors import PrivacyError
from airmixml.privacy import ADJACENCIES, PrivacyStatement, state_privacy
from airmixml.radio.centring import with_centring
from airmixml.radio.privacy_target import adversary_named, slots_target
from airmixml.radio.report import AirReport
from airmixml.scenario import Mixing, RunContext, Scenario, Workers
from airmixml.workers import worker_cost

_FEATURE_SLOTS: Final = 100_000
_FEATURE_SLOTS_PER_WORKER: Final = 20
_FEATURE_SCHEDULED: Final = 64


def adjacencies(scenario: Scenario) -> list[str]:
    """Return the scenario's kind of neighbours, then the other one."""
    return sorted(ADJACENCIES, key=lambda name: name != scenario.privacy.adjacency)


def run_airmix(work: Work) -> Outcome:
    """Run the scenario itself."""
    return run_scenario(work, _by_symbols(work.scenario))


def run_mixup_features(work: Work) -> Outcome:
    """Send the scenario's features as samples, mixed in many slots, and learn from the mixtures in closed form."""
    scenario = work.scenario
    count, adversary = scenario.workers.count, scenario.privacy.adversary
    scheduled = min(_FEATURE_SCHEDULED, count)
    slots = min(_FEATURE_SLOTS, _FEATURE_SLOTS_PER_WORKER * count)
    limited = ADVERSARIES.load(adversary).knows_schedule and scheduled < count
    return run_scenario(
        work,
        replace(
            scenario,
            workers=replace(scenario.workers, sends="samples"),
            radio=replace(
                scenario.radio,
                slots=slots,
                scheduled=scheduled,
                schedule="fixed",
                slot_seconds=0.0,
                # The server knows who sends when: nobody is to send more often than others.
                max_participations=fewest_participations(slots, scheduled, count) if limited else 0,
            ),
            mixing=Mixing(policy="equalmix", power="dp"),
            privacy=replace(
                scenario.privacy, accountant=exact_accountant(adversary, everybody_sends=scheduled == count)
            ),
            learner=closed_form_learner(scenario.learner),
        ),
    )


def run_paper(work: Work) -> Outcome:
    """Run the paper's way on the scenario's data, workers, channel and target."""
    return run_scenario(work, paper_scenario(work.scenario))


def paper_scenario(scenario: Scenario) -> Scenario:
    """Return the paper's way: scaled raw samples, its slots, ratios and network, and what it says a worker can move.

    Only its bound is not kept: a sharper one is kinder to it, and the same for all methods.
    """
    dataset = scenario.workers.dataset
    printed = Scenario.preset("paper-mnist" if dataset == "mnist" else "paper-iris")
    learner = Scenario.preset("digits").learner if dataset == "digits" else printed.learner
    plain, count = Workers(), scenario.workers.count
    raw = {name: getattr(plain, name) for name in ("encoder", "features", "centre", "norm", "clip_norm", "constant")}
    raw |= {name: getattr(plain, name) for name in ("sends", "label_weight", "bits")}
    scheduled = min(printed.radio.scheduled, count)
    accountant = exact_accountant(scenario.privacy.adversary, everybody_sends=scheduled == count)
    return replace(
        scenario,
        workers=replace(scenario.workers, **raw),
        radio=replace(
            scenario.radio,
            slots=printed.radio.slots,
            scheduled=scheduled,
            schedule="fixed",
            slot_seconds=0.0,
            max_participations=0,
        ),
        mixing=replace(printed.mixing, power="dp"),
        privacy=replace(scenario.privacy, sensitivity="paper", accountant=accountant),
        learner=learner,
    )


def _by_symbols(scenario: Scenario) -> Scenario:
    """Return the scenario with air time and energy by the symbols sent, which is how all methods are compared."""
    return replace(scenario, radio=replace(scenario.radio, slot_seconds=0.0))


def run_scenario(work: Work, scenario: Scenario) -> Outcome:
    """Run a scenario in memory, on the data and workers of the comparison."""
    dataset = work.dataset(scenario.workers)
    context = RunContext(speed=work.speed, progress=work.progress)
    learned = learn(scenario, dataset=dataset, population=work.population(dataset), context=context)
    report = learned.transmission.report
    centring_symbols = 0 if report.centring is None else dataset.input_dim
    return Outcome(
        accuracy=learned.trained.history.final_accuracy,
        privacy=_statements(scenario, report),
        uplink_symbols=report.slots * report.signal.symbols + centring_symbols,
        air_seconds=report.air_seconds,
        energy_joules=report.energy_joules,
        worker_multiply_accumulates=_worker_operations(scenario, report, dataset.held_dim or dataset.input_dim),
    )


def _worker_operations(scenario: Scenario, report: AirReport, held_dim: int) -> int:
    """Encoding once, and forming the symbols anew for every slot of an average worker."""
    encoding = worker_cost(scenario.workers, held_dim, replace(report.signal, moments=False, bits=0))
    once = worker_cost(scenario.workers, held_dim, report.signal).multiply_accumulates
    forming = once - encoding.multiply_accumulates
    times = max(1.0, report.slots * scenario.sampling_rate)
    return encoding.multiply_accumulates + round(times * forming)


def _statements(scenario: Scenario, report: AirReport) -> list[PrivacyStatement]:
    """Return the sharpest guarantee against the scenario's adversary, for both kinds of neighbours."""
    privacy, design = scenario.privacy, report.design
    sharpest = exact_accountant(privacy.adversary, everybody_sends=design.everybody_sends)
    stated = []
    for adjacency in adjacencies(scenario):
        for accountant in dict.fromkeys((sharpest, privacy.accountant)):
            with suppress(PrivacyError):
                own = scenario.mixing.power == "dp" and adjacency == privacy.adjacency
                statement = state_privacy(
                    design,
                    adversary_named(privacy.adversary, scenario),
                    accountant,
                    adjacency=adjacency,
                    delta=slots_target(scenario)[1],
                    target_epsilon=privacy.epsilon if own else None,
                )
                stated.append(with_centring(statement, report.centring))
                break
    if not stated or stated[0].adjacency != privacy.adjacency:
        return [report.privacy]  # which says why nothing can be stated
    return stated
