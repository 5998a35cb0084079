"""Scenarios of this package: as methods of a comparison, and as its baselines need them.

Federated learning is one of them: slots of gradients, with another way of stepping.

All keep the data, workers, channel and target of the scenario that is compared; what is sent or learned is another.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final

from airmixml.compare.methods import Exposure, Method, Outcome, RightRows, Work, slow_on_a_cpu
from airmixml.data import DataSet
from airmixml.edge import learn
from airmixml.impairments.fading import silent_share
from airmixml.messages import PrivacyError, ScenarioError
from airmixml.privacy import ADJACENCIES, PrivacyStatement, state_privacy
from airmixml.radio.masking import enough_absent
from airmixml.radio.privacy_target import slots_target
from airmixml.radio.system import adversary_named
from airmixml.radio.tally import AirReport
from airmixml.registries import ADVERSARIES, ENCODERS, METHODS
from airmixml.scenario import Air, Learner, Mixing, Privacy, Scenario, Speed, Workers, preset_names
from airmixml.scenario.consistency import rounds_refusal
from airmixml.scenario.rules import AUTO
from airmixml.workers import Signal, worker_cost

# Of federated learning and its central relatives, fixed for all data sets. They were chosen once on 10,000 of MNIST's
# training images, held out; no test set was seen.
CLIP_NORM: Final = 1.0
LEARNING_RATE: Final = 0.2
ROUNDS: Final = 100
_FEWER_ROUNDS: Final = 50

_INTEGERS: Final = ("arithmetic", "modulus_bits", "sum_range")
_LOST: Final = 0.001  # of the workers lose a packet, or fewer
_MOST_RECOVERED: Final = 0.49  # a majority must be present to agree on who is absent

_FEATURE_SLOTS: Final = 100_000
_FEATURE_SLOTS_PER_WORKER: Final = 20
_FEATURE_SCHEDULED: Final = 64


def state_both(
    scenario: Scenario, state: Callable[[str], PrivacyStatement], *, targeted: bool = True
) -> tuple[PrivacyStatement, ...]:
    """Return what ``state`` says of the scenario's kind of neighbours, then of the other where it can be stated.

    ``targeted``: the first has the scenario's epsilon as its target.
    """
    own, other = sorted(ADJACENCIES, key=lambda name: name != scenario.privacy.adjacency)
    stated = [replace(state(own), target_epsilon=scenario.privacy.epsilon if targeted else None)]
    with suppress(PrivacyError):
        stated.append(state(other))
    return tuple(stated)


def exact_accountant(adversary: str, *, everybody_sends: bool) -> str:
    """Return the sharpest accountant: exact where it is known who sent when, else by privacy-loss distributions."""
    return "gdp" if everybody_sends or ADVERSARIES.load(adversary).knows_schedule else "pld"


def with_slots(
    scenario: Scenario, *, slots: int, scheduled: int, mixing: Mixing, limited: bool = True, **changes: Any
) -> Scenario:
    """Return the scenario with so many slots (or rounds) of so many workers, under the sharpest accountant.

    Against the server nothing hides who sent when, so every worker sends about equally often unless ``limited`` is
    false; else the schedule is hidden, and a limit on participations would only spoil that. ``changes`` are those of
    other tables.
    """
    count, adversary = scenario.workers.count, scenario.privacy.adversary
    everybody = scheduled == count
    # The smallest limit that such a schedule can keep.
    limited = limited and ADVERSARIES.load(adversary).knows_schedule and not everybody
    limit = -(-slots // (count // scheduled)) if limited else 0
    accountant = exact_accountant(adversary, everybody_sends=everybody)
    privacy = replace(changes.pop("privacy", scenario.privacy), accountant=accountant)
    radio = replace(
        scenario.radio, slots=slots, scheduled=scheduled, schedule="fixed", slot_seconds=0.0, max_participations=limit
    )
    return replace(scenario, radio=radio, mixing=mixing, privacy=privacy, **changes)


def _closed_form(learner: Learner) -> Learner:
    """Return the learner without rounds, or ridge with its shrinkage where it is a network."""
    return replace(learner, rounds=0) if learner.closed_form else Learner(model="ridge", shrinkage=learner.shrinkage)


def samples_scenario(scenario: Scenario) -> Scenario:
    """Return the scenario with the same features sent as samples, unrounded, and a learner in closed form.

    A mean estimated over the air belongs to the mixtures; the other methods centre without it.
    """
    workers = replace(_centred_before(scenario.workers), sends="samples", label_code="one-hot", bits=0)
    return replace(scenario, workers=workers, learner=_closed_form(scenario.learner))


def one_slot(scenario: Scenario) -> Scenario:
    """Return the scenario as methods are compared: as long as its symbols take, without rounds of gradients."""
    return scenario.changed(radio={"slot_seconds": 0.0}, learner={"rounds": 0})


def with_rounds(scenario: Scenario) -> Scenario:
    """Return the same with the scenario's rounds; where it has none, as many as suit it, and what they start from."""
    plain = one_slot(scenario)
    if refusal := rounds_refusal(plain.workers, plain.radio):
        raise ScenarioError(refusal)
    chosen = {"rounds": AUTO, "model": AUTO}
    rounds = {"rounds": scenario.learner.rounds} if scenario.learner.rounds else chosen
    return plain.changed(learner=rounds).settled(plain.workers.count)


def federated_scenario(scenario: Scenario, rounds: int) -> Scenario:
    """Return the scenario with its features, all workers sending gradients in every slot, and Adam.

    A constant that the scenario's workers append serves as bias. Inputs whose norm is not bounded are clipped to 1.
    """
    workers = replace(_centred_before(scenario.workers), label_code="one-hot", bits=0)
    if not ENCODERS.load(workers.encoder).bounds_norm:
        workers = replace(workers, encoder="clip")
    return with_slots(
        scenario,
        slots=rounds,
        scheduled=workers.count,
        mixing=Mixing(policy="equalmix", power="dp"),
        workers=replace(workers, sends="gradients", clip_norm=min(workers.clip_norm, 1.0)),
        privacy=replace(scenario.privacy, sensitivity="encoder"),
        learner=Learner(model="ridge", descent="adam", learning_rate=LEARNING_RATE, gradient_clip=CLIP_NORM),
    )


def _centred_before(workers: Workers) -> Workers:
    """Return the workers with a centre that takes no slot of its own."""
    if not workers.centre_on_air:
        return workers
    return replace(workers, centre="own" if workers.centre == "private" else "public")


def against_everyone(scenario: Scenario, noise: str) -> Scenario:
    """Return the scenario with noise that its workers bring ("workers", "masked") and its target against everyone."""
    most_absent = scenario.privacy.most_absent if noise == "masked" else 0.0
    privacy = replace(scenario.privacy, noise=noise, adversary="everyone", accountant="gdp", most_absent=most_absent)
    return replace(scenario, workers=_centred_before(scenario.workers), privacy=privacy)


def over_receiver_noise(scenario: Scenario) -> Scenario:
    """Return the scenario without noise that its workers bring: the receiver's alone, the target against the server."""
    adversary = "server" if scenario.privacy.adversary == "everyone" else scenario.privacy.adversary
    names = ("noise", "most_absent", "mask_degree", "mask_share", "above_thermal_db", *_INTEGERS)
    plain = {name: getattr(Privacy(), name) for name in names}
    return scenario.changed(radio={"link": "analog"}, privacy={"adversary": adversary, **plain})


def over_digital_links(scenario: Scenario) -> Scenario:
    """Return a masked scenario whose workers send integers as packets; masks of all who may be absent are recovered."""
    needed = enough_absent(scenario, chance=max(scenario.air.absent, _LOST))
    most_absent = max(scenario.privacy.most_absent, needed)
    privacy = {"arithmetic": "integers", "mask_share": 0.0, "above_thermal_db": 0.0, "most_absent": most_absent}
    return scenario.changed(workers={"bits": 0, "bits_range": 0.0}, radio={"link": "digital"}, privacy=privacy)


def features_scenario(scenario: Scenario) -> Scenario:
    """Return the scenario with its features sent as samples, mixed in many slots, and a learner in closed form."""
    count = scenario.workers.count
    return with_slots(
        scenario,
        slots=min(_FEATURE_SLOTS, _FEATURE_SLOTS_PER_WORKER * count),
        scheduled=min(_FEATURE_SCHEDULED, count),
        mixing=Mixing(policy="equalmix", power="dp"),
        workers=replace(scenario.workers, sends="samples", label_code="one-hot"),
        learner=_closed_form(scenario.learner),
    )


def paper_scenario(scenario: Scenario) -> Scenario:
    """Return the paper's way: scaled raw samples, its slots, ratios and network, and what it says a worker can move.

    Only its bound is not kept: a sharper one is kinder to it, and the same for all methods.
    """
    dataset = scenario.workers.dataset
    printed = _first_preset(f"paper-{dataset}", "paper-iris")
    return with_slots(
        scenario,
        slots=printed.radio.slots,
        scheduled=min(printed.radio.scheduled, scenario.workers.count),
        mixing=replace(printed.mixing, power="dp"),
        limited=False,
        workers=raw_rows(scenario.workers),
        privacy=replace(scenario.privacy, sensitivity="paper"),
        learner=_first_preset(f"paper-{dataset}", dataset, "paper-iris").learner,
    )


def raw_rows(workers: Workers) -> Workers:
    """Return the workers with scaled raw samples, unrounded: the defaults of all that says what they send."""
    plain = Workers()
    encoding = ("encoder", "features", "centre", "norm", "clip_norm", "constant")
    sending = ("sends", "label_code", "label_weight", "bits")
    return replace(workers, **{name: getattr(plain, name) for name in (*encoding, *sending)})


def _first_preset(*names: str) -> Scenario:
    return Scenario.preset(next(name for name in names if name in preset_names()))


def encoding_cost(scenario: Scenario, dataset: DataSet) -> int:
    """Return the multiply-accumulates that a worker spends on encoding its sample, before it forms any symbol."""
    as_it_is = Signal(features=dataset.input_dim, classes=dataset.label_dim)
    return worker_cost(scenario.workers, dataset.held_dim or dataset.input_dim, as_it_is).multiply_accumulates


class OwnScenario(Method):
    """A scenario of this package, made of the one that is compared by one function after the other.

    ``network``: it trains one; ``variant_of``: name of a method that may run the very same.
    """

    on_air = True

    def __init__(
        self,
        about: str,
        *made_by: Callable[[Scenario], Scenario],
        network: bool = False,
        variant_of: str = "",
    ) -> None:
        self.about, self._made_by, self._network, self._variant_of = about, made_by, network, variant_of

    def run(self, work: Work) -> Outcome:
        return run_scenario(work, self.own_scenario(work.scenario))

    def own_scenario(self, scenario: Scenario) -> Scenario:
        """Return the scenario that is run."""
        for make in self._made_by:
            scenario = make(scenario)
        return scenario

    def skipped(self, scenario: Scenario, speed: Speed) -> str:
        if self._variant_of:
            with suppress(ScenarioError):  # it cannot be made, which a run says
                if self.own_scenario(scenario) == METHODS.load(self._variant_of).own_scenario(scenario):
                    return f"the same as {self._variant_of}"
        return slow_on_a_cpu(scenario, speed) if self._network else ""


def _masks(scenario: Scenario) -> Scenario:
    """Return the scenario with masks in real numbers; recovered ones are those of all who are silent on its own air."""
    plain = {name: getattr(Privacy(), name) for name in _INTEGERS}
    masked = against_everyone(scenario.changed(radio={"link": "analog"}, privacy=plain), "masked")
    most_absent = masked.privacy.most_absent
    if most_absent:  # a short slot may lie in a single fade, even where fading is renewed
        lasting = replace(masked.air, fading_renewal=Air().fading_renewal)
        needed = enough_absent(masked, chance=silent_share(replace(masked, air=lasting)))
        most_absent = max(most_absent, min(needed, _MOST_RECOVERED))
    return masked.changed(privacy={"most_absent": most_absent})


AIRMIX = OwnScenario("this scenario, without rounds", one_slot)
AIRMIX_ROUNDS = OwnScenario("airmix, then rounds of gradients", with_rounds)
_OWN_NOISE: Final = partial(against_everyone, noise="workers")
WORKERS_NOISE = OwnScenario("airmix, each worker adds its noise", one_slot, _OWN_NOISE, variant_of="airmix")
MASKED = OwnScenario("airmix under masks that cancel", one_slot, _masks, variant_of="airmix")
MASKED_ROUNDS = OwnScenario("masked, then rounds of gradients", _masks, with_rounds, variant_of="airmix-rounds")
UNMASKED = OwnScenario("airmix without masks", one_slot, over_receiver_noise, variant_of="airmix")
_DIGITAL: Final = (_masks, over_digital_links)
DIGITAL = OwnScenario("masked integers over digital links", one_slot, *_DIGITAL, variant_of="airmix")
DIGITAL_ROUNDS = OwnScenario("digital, then rounds of gradients", *_DIGITAL, with_rounds, variant_of="airmix-rounds")
_IN_ROUNDS, _IN_FEWER = (partial(federated_scenario, rounds=rounds) for rounds in (ROUNDS, _FEWER_ROUNDS))
FEDERATED = OwnScenario(f"sums of clipped gradients in {ROUNDS} rounds", _IN_ROUNDS)
FEDERATED_50 = OwnScenario(f"sums of clipped gradients in {_FEWER_ROUNDS} rounds", _IN_FEWER)
_MASKED_SUMS: Final = f"masked sums of gradients in {ROUNDS} rounds"
FEDERATED_MASKED = OwnScenario(_MASKED_SUMS, _masks, _IN_ROUNDS, variant_of="federated")
MIXUP_FEATURES = OwnScenario("samples mixed by few workers in many slots", features_scenario)
PAPER = OwnScenario("the paper's: raw samples train a network", paper_scenario, network=True)


def run_scenario(work: Work, scenario: Scenario) -> Outcome:
    """Run a scenario in memory, on the data and workers of the comparison."""
    dataset, population = work.load(scenario.workers)
    learned = learn(scenario, dataset=dataset, population=population, context=work.context)
    report, link = learned.transmission.report, scenario.radio.link_kind
    senders = 1 if link.on_air else scenario.radio.scheduled  # that share a symbol, or send one after the other
    # Encoding once, and forming the symbols anew for every slot of an average worker.
    times = max(1.0, (report.slots - report.rounds) * scenario.sampling_rate)
    forming = times * report.signal.operations
    if report.rounds:
        forming += report.rounds * scenario.sampling_rate * report.system.of_rounds.signal.operations
    uplink, predicted = report.in_all(lambda each: each.symbols_on_air), learned.trained.history.predicted
    assert predicted is not None  # a score on the test set rests on it
    state = partial(_sharpest, scenario, report)
    try:
        by_kind = partial(state, scenario.privacy.adversary)
        stated = state_both(scenario, by_kind, targeted=scenario.mixing.power_policy.keeps_target)
    except PrivacyError:
        stated = (report.privacy,)  # which says why nothing can be stated
    return Outcome(
        accuracy=learned.trained.history.final_accuracy,
        tested=RightRows.of(dataset, predicted),
        privacy=stated,
        exposure=Exposure.of_statements(
            lambda adversary: state(adversary, scenario.privacy.adjacency), noise=scenario.privacy.noise
        ),
        uplink_symbols=senders * uplink + (0 if report.centring is None else dataset.input_dim),
        uplink_unit=link.unit,
        downlink_bits=report.in_all(lambda each: each.signal.downlink_bits),
        slots_per_worker=report.most_sent,
        air_seconds=report.air_seconds,
        energy_joules=report.energy_joules,
        bandwidth_hz=link.bandwidth_hz(scenario),
        trusted=scenario.privacy.noise_kind.trust(scenario.privacy, scenario.privacy.adversary),
        worker_multiply_accumulates=encoding_cost(scenario, dataset) + round(forming),
    )


def _sharpest(scenario: Scenario, report: AirReport, name: str, adjacency: str) -> PrivacyStatement:
    """Return the guarantee against the adversary of that name by the sharpest accountant, or by the scenario's."""
    adversary = adversary_named(name, scenario)
    by = partial(state_privacy, report.design, adversary, adjacency=adjacency, delta=slots_target(scenario)[1])
    try:
        statement = by(exact_accountant(name, everybody_sends=report.design.everybody_sends))
    except PrivacyError:
        statement = by(scenario.privacy.accountant)
    return statement if report.centring is None else report.centring.added_to(statement)
