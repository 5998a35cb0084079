"""Methods that are scenarios of this package: the scenario itself, samples instead of moments, the paper's own way."""

from contextlib import suppress
from dataclasses import replace
from typing import Final

from airmixml.compare.methods import Method
from airmixml.compare.variants import (
    adjacencies,
    closed_form_learner,
    encoding_operations,
    exact_accountant,
    paper_scenario,
    slow_on_a_cpu,
    with_slots,
)
from airmixml.compare.work import Outcome, Work
from airmixml.data import DataSet
from airmixml.edge import learn
from airmixml.errors import PrivacyError
from airmixml.privacy import PrivacyStatement, state_privacy
from airmixml.radio.centring import with_centring
from airmixml.radio.privacy_target import adversary_named, slots_target
from airmixml.radio.report import AirReport
from airmixml.scenario import Mixing, Scenario, Speed
from airmixml.workers import worker_cost

_FEATURE_SLOTS: Final = 100_000
_FEATURE_SLOTS_PER_WORKER: Final = 20
_FEATURE_SCHEDULED: Final = 64


class AirMix(Method):
    """The scenario itself."""

    about = "the scenario itself"

    def run(self, work: Work) -> Outcome:
        """Run it with air time and energy by the symbols sent, which is how all methods are compared."""
        return run_scenario(work, replace(work.scenario, radio=replace(work.scenario.radio, slot_seconds=0.0)))


class MixupFeatures(Method):
    """The scenario's features sent as samples."""

    about = "its features as samples, mixed over the air in many slots, learned in closed form"

    def run(self, work: Work) -> Outcome:
        """Send the features as samples, mixed in many slots, and learn from the mixtures in closed form."""
        scenario, count = work.scenario, work.scenario.workers.count
        sent = with_slots(
            scenario,
            slots=min(_FEATURE_SLOTS, _FEATURE_SLOTS_PER_WORKER * count),
            scheduled=min(_FEATURE_SCHEDULED, count),
            mixing=Mixing(policy="equalmix", power="dp"),
            workers=replace(scenario.workers, sends="samples"),
            learner=closed_form_learner(scenario.learner),
        )
        return run_scenario(work, sent)


class Paper(Method):
    """The paper's way."""

    about = "the paper's way: raw samples mixed over the air, its network"

    def run(self, work: Work) -> Outcome:
        """Run the paper's way on the scenario's data, workers, channel and target."""
        return run_scenario(work, paper_scenario(work.scenario))

    def skipped(self, scenario: Scenario, speed: Speed) -> str:
        """Return why its network is not trained unless asked for."""
        return slow_on_a_cpu(scenario, speed)


def run_scenario(work: Work, scenario: Scenario) -> Outcome:
    """Run a scenario in memory, on the data and workers of the comparison."""
    dataset, population = work.load(scenario.workers)
    learned = learn(scenario, dataset=dataset, population=population, context=work.context)
    report = learned.transmission.report
    centring_symbols = 0 if report.centring is None else dataset.input_dim
    return Outcome(
        accuracy=learned.trained.history.final_accuracy,
        privacy=_statements(scenario, report),
        uplink_symbols=report.slots * report.signal.symbols + centring_symbols,
        air_seconds=report.air_seconds,
        energy_joules=report.energy_joules,
        worker_multiply_accumulates=_worker_operations(scenario, report, dataset),
    )


def _worker_operations(scenario: Scenario, report: AirReport, dataset: DataSet) -> int:
    """Encoding once, and forming the symbols anew for every slot of an average worker."""
    encoding, held_dim = encoding_operations(scenario, dataset), dataset.held_dim or dataset.input_dim
    forming = worker_cost(scenario.workers, held_dim, report.signal).multiply_accumulates - encoding
    return encoding + round(max(1.0, report.slots * scenario.sampling_rate) * forming)


def _statements(scenario: Scenario, report: AirReport) -> tuple[PrivacyStatement, ...]:
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
        return (report.privacy,)  # which says why nothing can be stated
    return tuple(stated)


AIRMIX, MIXUP_FEATURES, PAPER = AirMix(), MixupFeatures(), Paper()
