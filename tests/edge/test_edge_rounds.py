"""Rounds of gradients: what they cost by hand, noise that is new in each, steps that solve what can be solved."""

import math
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest
import torch
from scipy.stats import norm

from airmixml import Scenario, simulate, train
from airmixml.data import DataSet
from airmixml.edge import Learned, learn
from airmixml.edge.closed_form import ReceivedMoments, solve
from airmixml.edge.descents import AdamDescent, Preconditioned, Start, Stepping
from airmixml.edge.training import collector_for
from airmixml.messages import ScenarioError
from airmixml.radio.rounds import RoundsOnAir
from airmixml.radio.tally import rehearse
from airmixml.registries import DESCENTS
from airmixml.scenario import Learner
from airmixml.scenario.score_links import IDENTITY, SOFTMAX
from airmixml.streams import Streams
from airmixml.workers import load_dataset

ONE_STEP = Learner(rounds=1, rounds_step=0.2)  # in units of the clip, 0.2: a step of Newton's
TABLE = Scenario.preset("private-table").settled(379, 30)


def rounds(*changes: str) -> Scenario:
    return TABLE.with_overrides("learner.rounds=5", *changes)


def learnt(scenario: Scenario) -> Learned:
    return learn(scenario, dataset=data(scenario))


def data(scenario: Scenario) -> DataSet:
    return load_dataset(scenario.workers, Streams(scenario.seed))


def delta_of(epsilon: float, squared_mu: float) -> float:
    """The exact delta of Gaussian mechanisms whose mu^2 add up to this (Dong et al. 2022, Corollary 1)."""
    mu = math.sqrt(squared_mu)
    return float(norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu))


def test_all_slots_together_keep_the_target_by_hand() -> None:
    """Received powers of both kinds of slots, the noise of the receiver, and the norms of what is sent."""
    scenario = rounds("workers.centre=public", "learner.rounds_share=0.7")
    report = learnt(scenario).transmission.report
    (moments_watts, rounds_watts), counts = report.design.received_watts, report.design.counts
    assert counts == (1, 5)
    half_noise_watts = 10.0 ** (scenario.radio.noise_dbm / 10.0 - 3.0) / 2.0
    squared_norm = 1.0 + scenario.workers.label_weight**2  # of inputs of norm 1
    squared_mu = [watts * squared_norm / half_noise_watts for watts in (moments_watts, 5.0 * rounds_watts)]
    assert squared_mu[1] / sum(squared_mu) == pytest.approx(0.7, rel=1e-6)
    assert delta_of(scenario.privacy.epsilon, sum(squared_mu)) == pytest.approx(scenario.privacy.delta, rel=1e-6)
    assert report.privacy_against_server.epsilon == pytest.approx(1.0, rel=1e-9)
    assert report.worker_epsilons() == pytest.approx(np.full(379, 1.0), rel=1e-9)
    assert report.worker_squared_mu().max() == pytest.approx(sum(squared_mu), rel=1e-9)
    assert report.ledger.participations.tolist() == [6] * 379


@pytest.mark.parametrize(
    "changes",
    [
        (),
        ("air.preset=line-of-sight", "workers.centre=public"),
        ("privacy.adversary=everyone", "privacy.noise=masked", "workers.centre=public"),
        ("privacy.adversary=everyone", "privacy.noise=masked", "privacy.arithmetic=integers", "workers.centre=public"),
        ("privacy.adversary=eavesdropper", "workers.centre=public"),
        ("privacy.adjacency=replace-one",),
        ("privacy.accountant=pld", "workers.centre=public"),
    ],
)
def test_a_rehearsal_states_what_a_run_states_and_both_keep_the_target(changes: tuple[str, ...]) -> None:
    scenario = rounds("learner.rounds=3", *changes)
    sent = learnt(scenario).transmission
    report, without_data = sent.report, rehearse(scenario, sent.dataset.input_dim, 2)
    for one, other in zip(report.statements, without_data.statements, strict=True):
        assert one.epsilon == pytest.approx(other.epsilon, rel=1e-9)
    assert report.privacy.epsilon <= scenario.privacy.epsilon * (1.0 + 1e-9)
    assert report.air_seconds == pytest.approx(without_data.air_seconds)
    assert report.energy_joules == pytest.approx(without_data.energy_joules)


def test_a_report_counts_the_rounds() -> None:
    one_slot, scenario = (rounds("workers.centre=public", f"learner.rounds={each}") for each in (0, 5))
    before, after = (learnt(each).transmission.report for each in (one_slot, scenario))
    told = after.to_dict()
    assert told["slots"] == 6
    # 31 inputs with the constant times 2 classes; downlink in 32 bits, with biases and clip.
    assert told["rounds"] == {
        "count": 5,
        "share": 0.9,
        "clip": scenario.learner.gradient_clip,
        "symbols_per_round": 62,
        "seconds_per_round": pytest.approx(62 / 794e3),
        "downlink_bits_per_round": 32 * (62 + 2 + 1),
        "multiply_accumulates_per_round": 2 * 62 + (10 + 2) * 2,  # scores and products, softmax and norm
    }
    assert after.air_seconds == pytest.approx(before.air_seconds + 5 * 62 / 794e3)
    assert after.energy_joules == pytest.approx(before.energy_joules)  # the same mu^2, the same norms


class Listening:
    """Keeps what each round received, and broadcasts a model that never changes."""

    about = "listens"
    needs_moments = True
    heard: ClassVar[list[torch.Tensor]] = []
    deviation: ClassVar[float]

    def __init__(self, learner: Learner, start: Start) -> None:
        self.inner = AdamDescent(learner, start)
        self.weights, self.broadcast = start.weights, self.inner.broadcast

    def receive(self, gradient: torch.Tensor, deviation: float) -> None:
        self.heard.append(gradient)

        Listening.deviation = deviation


@pytest.fixture
def listening(monkeypatch: pytest.MonkeyPatch) -> type[Listening]:
    """A descent of another package: one class."""
    monkeypatch.setitem(DESCENTS.loaded, "listening", Listening)
    monkeypatch.setitem(vars(DESCENTS), "plugins", {"listening": None})
    Listening.heard = []
    return Listening


@pytest.mark.parametrize(
    "changes", [(), ("privacy.noise=masked", "privacy.adversary=everyone", "workers.centre=public")]
)
def test_every_round_has_new_noise_of_the_stated_deviation(
    listening: type[Listening], changes: tuple[str, ...]
) -> None:
    learnt(rounds("learner.descent=listening", "learner.rounds=40", *changes))
    heard = torch.stack(listening.heard).flatten(1).numpy()  # one model throughout, so all but the noise is equal
    noise = (heard - heard.mean(axis=0)) * math.sqrt(40 / 39)
    assert noise.std() == pytest.approx(listening.deviation, rel=4.0 / math.sqrt(2 * noise.size))
    alike = np.corrcoef(noise) - np.eye(40)
    assert np.abs(alike).max() < 6.0 / math.sqrt(noise.shape[1])


def test_noise_of_rounds_is_not_that_of_the_moments(listening: type[Listening]) -> None:
    """Slots are numbered on: a number that came twice would bring the same noise twice, which could be subtracted."""
    learned = learnt(rounds("learner.descent=listening", "workers.centre=public"))
    block = learned.transmission.examples
    first = (block.inputs - block.clean_inputs)[0, :62].numpy()
    mean = torch.stack(listening.heard).mean(dim=0)
    for heard in listening.heard:
        assert abs(np.corrcoef(first, (heard - mean).flatten().numpy())[0, 1]) < 6.0 / math.sqrt(62)


ALONE = ("workers.sends=gradients", "learner.rounds=0", "learner.descent=adam", "radio.slots=5")


@pytest.mark.parametrize("changes", [(), ALONE])
def test_a_simulation_has_all_rounds_and_training_sends_nothing_again(changes: tuple[str, ...]) -> None:
    scenario = rounds(*changes)
    mixtures = simulate(scenario)
    report = mixtures.report
    assert report.ledger.participations.tolist() == [5 + (not changes)] * 379
    before = report.energy_joules, report.privacy_against_server.epsilon
    last, (first, second) = mixtures.rounds[-1], (train(mixtures).model[0].weight for _ in range(2))
    assert last.gradient.shape == last.told.weights.shape == (31, 2)
    assert len(mixtures.rounds) == 5
    assert torch.equal(first, second)
    assert torch.equal(first, learnt(scenario).trained.model[0].weight)
    assert not np.array_equal(last.told.weights, first.detach().numpy().T)  # after the last broadcast it stepped
    assert (report.energy_joules, report.privacy_against_server.epsilon) == before
    if changes:
        sent = torch.stack([each.gradient.T.flatten() for each in mixtures.rounds])
        assert mixtures.inputs.double().numpy() == pytest.approx(sent.numpy(), rel=1e-6)
        assert mixtures.labels.shape == (5, 0)


def test_rounds_are_not_used_for_other_models() -> None:
    """The noise of a round would then hide two things."""
    mixtures = simulate(rounds())
    other = replace(mixtures, inputs=2.0 * mixtures.inputs)
    with pytest.raises(ScenarioError, match="simulate the scenario again"):
        train(other)
    assert len(mixtures.rounds) == 5


def test_a_step_without_noise_solves_least_squares() -> None:
    rng = np.random.default_rng(0)
    inputs, targets = torch.from_numpy(rng.standard_normal((50, 4))), torch.from_numpy(rng.standard_normal((50, 2)))
    second, cross = inputs.T @ inputs / 50, inputs.T @ targets / 50
    zeros = torch.zeros((4, 2), dtype=torch.float64)
    moments = ReceivedMoments(second=second, cross=cross, input_mean=zeros[:, 0], label_mean=zeros[0], noise_edge=0.0)
    descent = Preconditioned(ONE_STEP, Start(weights=zeros, biases=zeros[0], norm=1.0, link=IDENTITY, moments=moments))
    told = descent.broadcast()
    descent.receive(torch.from_numpy(inputs.numpy().T @ told.errors(inputs.numpy(), targets.numpy()) / 50), 0.0)
    assert descent.weights.numpy() == pytest.approx(np.linalg.lstsq(inputs, targets, rcond=None)[0], abs=1e-9)


def test_noise_hardly_moves_the_model_along_what_noise_drowned() -> None:
    """Eigenvalues below 0 are noise: steps along them are divided by half the noise's radius."""
    second = torch.diag(torch.tensor([1.0, -0.1], dtype=torch.float64))
    zeros = torch.zeros((2, 1), dtype=torch.float64)
    moments = ReceivedMoments(second=second, cross=zeros, input_mean=zeros[:, 0], label_mean=zeros[0], noise_edge=0.5)
    descent = Preconditioned(ONE_STEP, Start(weights=zeros, biases=zeros[0], norm=1.0, link=IDENTITY, moments=moments))
    descent.receive(torch.ones((2, 1), dtype=torch.float64), 0.0)
    assert sorted(descent.weights.flatten().tolist()) == pytest.approx([-1.0 / 0.25, -1.0 / 1.25])


def test_slots_of_gradients_alone_start_from_zeros() -> None:
    changes = ("workers.sends=gradients", "learner.rounds=0", "learner.descent=adam", "radio.slots=30")
    learned = learnt(rounds(*changes, "learner.gradient_clip=1", "learner.learning_rate=0.2", "privacy.epsilon=10"))
    report = learned.transmission.report
    assert report.slots == 30
    assert report.privacy_against_server.epsilon == pytest.approx(10.0, rel=1e-9)
    accuracy = learned.trained.history.test_accuracy
    assert len(accuracy) == 31
    assert accuracy[-1] > 0.9 > accuracy[0]


def test_the_same_seed_gives_the_same_model_and_another_device_setting_does_too() -> None:
    one, other = (learnt(rounds()).trained.model[0].weight for _ in range(2))
    assert torch.equal(one, other)


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        (("workers.sends=samples", "workers.label_code=one-hot"), "workers.sends"),
        (("radio.slot_seconds=1",), "radio.slot_seconds"),
        (("radio.max_participations=9",), "radio.max_participations"),
        (("workers.sends=gradients", "learner.rounds=0"), "learner.descent"),
        (("learner.rounds=-1",), "learner.rounds"),
        (("learner.rounds_share=1",), "learner.rounds_share"),
        (("learner.gradient_clip=0",), "learner.gradient_clip"),
        (("learner.descent=newton",), "learner.descent"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(changes: tuple[str, ...], names: str) -> None:
    with pytest.raises(ScenarioError, match=names.replace(".", r"\.")) as refused:
        rounds(*changes)
    assert "\n" not in str(refused.value)


def test_rounds_use_the_secret_of_a_protected_transmission(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise drawn from the public seed would protect nobody."""
    from airmixml.streams import Secret

    used = []
    whole = RoundsOnAir.__init__

    def noting(self: RoundsOnAir, air: object, *args: object, **given: object) -> None:
        whole(self, air, *args, **given)  # type: ignore[arg-type]
        used.append(self.setting.secret)

    monkeypatch.setattr(RoundsOnAir, "__init__", noting)
    secret = Secret()
    train(simulate(rounds(), secret=secret))
    assert used == [secret, secret]  # simulated, and looked at again by the training


@pytest.mark.parametrize("noise", ["receiver", "workers"])
def test_a_worker_that_misses_rounds_spends_less_and_its_ledger_says_so(noise: str) -> None:
    """Of mu^2 each slot has its share, moments 0.1 and five rounds 0.18 each, whoever brings the noise."""
    adversary = "server" if noise == "receiver" else "everyone"
    whose = (f"privacy.noise={noise}", f"privacy.adversary={adversary}", "workers.centre=public")
    report = learnt(rounds("air.absent=0.3", "learner.rounds_share=0.9", *whose)).transmission.report
    slots, epsilons = report.ledger.participations, report.worker_epsilons()
    assert {1, 2, 3, 4, 5, 6} <= set(slots) <= set(range(7))
    (whole,) = {*np.round(epsilons[slots == 6], 9)}
    assert whole == pytest.approx(report.privacy_against_server.epsilon, rel=1e-6)
    squared_mu = report.worker_squared_mu().max()
    for count in range(1, 6):
        allowed = [0.18 * count, 0.18 * (count - 1) + 0.1]  # without the moments, or with them
        expected = [delta_of(epsilon, share * squared_mu) for epsilon in epsilons[slots == count] for share in allowed]
        nearest = np.abs(np.log(np.array(expected).reshape(-1, 2) / report.scenario.privacy.delta)).min(axis=1)
        assert nearest.max() < 1e-4


ADAM = ("workers.sends=gradients", "learner.rounds=0", "learner.descent=adam")


@pytest.mark.parametrize(
    ("changes", "named", "other"),
    [
        (("learner.temperature=1e6",), "learner.rounds_step = 0, learner.temperature = 1e+06,", "learning_rate"),
        (ADAM, "learner.learning_rate = 0.001:", "rounds_step"),
    ],
)
def test_rounds_that_diverge_name_what_to_change(
    monkeypatch: pytest.MonkeyPatch, changes: tuple[str, ...], named: str, other: str
) -> None:
    def diverge(self: Preconditioned | AdamDescent, gradient: torch.Tensor, _deviation: float) -> None:
        self.weights = self.weights + 1e50 * gradient.to(self.weights)  # no more than single precision cannot hold

    for kind in (Preconditioned, AdamDescent):
        monkeypatch.setattr(kind, "receive", diverge)
    with pytest.raises(ScenarioError, match="diverge") as refused:
        learnt(rounds(*changes))
    assert named in str(refused.value)
    assert other not in str(refused.value)
    assert "\n" not in str(refused.value)


def test_discriminants_of_noisy_moments_are_no_worse_a_start_than_least_squares() -> None:
    """Logits of the few rows of wine are too certain in this noise: as they are, some seeds end at 67 %."""
    wine = Scenario.preset("private-table").with_overrides("workers.dataset=wine", "learner.rounds=20").settled(118, 13)
    found = {
        model: [
            learnt(wine.with_overrides(f"learner.model={model}").with_seed(seed)).trained.history.test_accuracy[-1]
            for seed in range(3)
        ]
        for model in ("ridge", "lda")
    }
    assert np.mean(found["lda"]) > np.mean(found["ridge"]) - 0.03
    assert min(found["lda"]) > 0.75


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("kind", [Preconditioned, AdamDescent])
def test_several_runs_at_once_are_those_one_by_one(kind: type[Stepping], signed: bool) -> None:
    rng = torch.Generator().manual_seed(3)
    learner = Learner(model="ridge", rounds=2)

    def numbers(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=rng, dtype=torch.float64)

    second, cross, gradients = numbers(5, 4, 4), numbers(5, 4, 3), numbers(2, 5, 4, 3)
    inputs, labels = numbers(10, 4).numpy(), numbers(10, 3).numpy()

    def stepped(run: slice | int) -> tuple[torch.Tensor, np.ndarray]:
        moments = ReceivedMoments(
            second=(second + second.mT)[run],
            cross=cross[run],
            input_mean=torch.zeros(4, dtype=torch.float64),
            label_mean=torch.zeros(3, dtype=torch.float64),
            noise_edge=0.5,
            signed=signed,
        )
        weights, biases = solve(learner, moments)
        descent = kind(
            learner,
            Start(weights=weights, biases=biases, norm=1.0, link=IDENTITY if signed else SOFTMAX, moments=moments),
        )
        for gradient in gradients:
            descent.receive(gradient[run], 0.1)
        rows = slice(0, 10) if isinstance(run, slice) else slice(2 * run, 2 * run + 2)
        return descent.weights, descent.broadcast().errors(inputs[rows], labels[rows])

    weights, errors = stepped(slice(0, 5))
    for run in range(5):
        alone = stepped(run)
        assert weights[run].numpy() == pytest.approx(alone[0].numpy(), rel=1e-9, abs=1e-12)
        assert errors[2 * run : 2 * run + 2] == pytest.approx(alone[1], rel=1e-9, abs=1e-12)


def test_moments_of_several_runs_at_once_are_those_one_by_one() -> None:
    scenario = rounds("workers.centre=public")
    received = torch.randn((3, 7, 31 * 32 // 2 + 31 * 2), generator=torch.Generator().manual_seed(1)).double()

    def moments(some: torch.Tensor) -> ReceivedMoments:
        collector = collector_for(scenario, data(scenario))
        collector.add(some[..., : 31 * 32 // 2], some[..., 31 * 32 // 2 :])
        return collector.moments(0.3, 1.0)

    together = moments(received)
    for run in range(7):
        alone = moments(received[:, run])
        assert together.second[run].numpy() == pytest.approx(alone.second.numpy(), rel=1e-12, abs=1e-12)
        assert together.cross[run].numpy() == pytest.approx(alone.cross.numpy(), rel=1e-12, abs=1e-12)
        assert together.noise_edge == alone.noise_edge
