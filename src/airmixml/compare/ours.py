"""Methods that are scenarios of this package: the scenario itself, samples instead of moments, the paper's own way."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from airmixml.compare.methods import Method, slow_on_a_cpu
from airmixml.compare.variants import encoding_cost, exact_accountant, features_scenario, paper_scenario, state_both
from airmixml.compare.work import Outcome, Work
from airmixml.data import DataSet
from airmixml.edge import learn
from airmixml.errors import PrivacyError
from airmixml.privacy import PrivacyStatement, state_privacy
from airmixml.radio.centring import with_centring
from airmixml.radio.privacy_target import adversary_named, slots_target
from airmixml.radio.report import AirReport
from airmixml.scenario import Scenario, Speed
from airmixml.workers import worker_cost


class OwnScenario(Method):
    """A scenario of this package, made of the one that is compared; ``network``: it trains one."""

    def __init__(self, about: str, made_of: Callable[[Scenario], Scenario], *, network: bool = False) -> None:
        self.about, self._made_of, self._network = about, made_of, network

    def run(self, work: Work) -> Outcome:
        """Run it on the data, workers, channel and target of the comparison."""
        return run_scenario(work, self._made_of(work.scenario))

    def skipped(self, scenario: Scenario, speed: Speed) -> str:
        """Return why a network is not trained unless asked for."""
        return slow_on_a_cpu(scenario, speed) if self._network else ""


def _as_long_as_its_symbols(scenario: Scenario) -> Scenario:
    """Return the scenario with air time and energy by the symbols sent, which is how all methods are compared."""
    return replace(scenario, radio=replace(scenario.radio, slot_seconds=0.0))


AIRMIX = OwnScenario("the scenario itself", _as_long_as_its_symbols)
MIXUP_FEATURES = OwnScenario(
    "its features as samples, mixed over the air in many slots, learned in closed form", features_scenario
)
PAPER = OwnScenario("the paper's way: raw samples mixed over the air, its network", paper_scenario, network=True)


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
    encoding, held_dim = encoding_cost(scenario, dataset), dataset.held_dim or dataset.input_dim
    forming = worker_cost(scenario.workers, held_dim, report.signal).multiply_accumulates - encoding
    return encoding + round(max(1.0, report.slots * scenario.sampling_rate) * forming)


def _statements(scenario: Scenario, report: AirReport) -> tuple[PrivacyStatement, ...]:
    """Return the sharpest guarantee against the scenario's adversary, for both kinds of neighbours."""
    privacy, delta = scenario.privacy, slots_target(scenario)[1]
    adversary = adversary_named(privacy.adversary, scenario)
    sharpest = exact_accountant(privacy.adversary, everybody_sends=report.design.everybody_sends)

    def state(adjacency: str) -> PrivacyStatement:
        target = privacy.epsilon if scenario.mixing.power == "dp" and adjacency == privacy.adjacency else None
        by = partial(state_privacy, report.design, adversary, adjacency=adjacency, delta=delta, target_epsilon=target)
        try:
            statement = by(sharpest)
        except PrivacyError:
            statement = by(privacy.accountant)
        return with_centring(statement, report.centring)

    try:
        return state_both(scenario, state)
    except PrivacyError:
        return (report.privacy,)  # which says why nothing can be stated
