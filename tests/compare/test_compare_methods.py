"""What each method of a comparison gives, checked by another way to get there."""

from __future__ import annotations

import math
import sys
from dataclasses import replace

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LinearRegression

from airmixml import Scenario
from airmixml.arrays import dbm_to_watts
from airmixml.compare import METHODS, Outcome, Work, choose_methods, load_methods
from airmixml.compare.baselines.central import calibrate_dp_sgd
from airmixml.compare.baselines.without_mixing import plan_orthogonal
from airmixml.compare.ours import samples_scenario
from airmixml.messages import PluginError, ScenarioError
from airmixml.scenario import Speed
from airmixml.workers import Signal

SMALL = Scenario(name="small").with_overrides(
    "workers.dataset=digits",
    "workers.count=400",
    "workers.train_samples=1200",
    "workers.holding=dealt",
    "workers.encoder=clip",
    "workers.centre=own",
    "workers.norm=unit",
    "workers.sends=moments",
    "radio.slots=1",
    "radio.scheduled=400",
    "mixing.policy=equalmix",
    "privacy.epsilon=10",
    "privacy.delta=1e-3",
    "privacy.adversary=server",
    "privacy.accountant=gdp",
    "privacy.adjacency=remove-one",
    "privacy.sensitivity=encoder",
    "learner.model=ridge",
)


@pytest.fixture(scope="module")
def work() -> Work:
    return Work(scenario=SMALL)


def run(name: str, work: Work) -> Outcome:
    return load_methods(name)[name].run(work)


@pytest.mark.parametrize("model", ["ridge", "lda"])
def test_raw_is_what_scikit_learn_gets_from_the_samples(model: str) -> None:
    scenario = SMALL.with_overrides(f"learner.model={model}")
    work = Work(scenario=scenario)
    outcome = run("raw", work)
    data, people = work.load(samples_scenario(scenario).workers)
    held = people.sample_index
    inputs, labels = data.train_inputs[held].astype(np.float64), data.train_labels[held]
    if model == "ridge":
        fitted = LinearRegression().fit(inputs, np.eye(10)[labels])
        guessed = fitted.predict(data.test_inputs).argmax(axis=1)
    else:
        guessed = LinearDiscriminantAnalysis().fit(inputs, labels).predict(data.test_inputs)
    assert outcome.accuracy == pytest.approx(float((guessed == data.test_labels).mean()), abs=0.015)
    assert outcome.accuracy > 0.8
    assert outcome.privacy[0].epsilon > 1000  # and nobody is told otherwise
    assert outcome.uplink_symbols == 400 * 74


def test_orthogonal_slots_use_the_power_that_they_need() -> None:
    work = Work(scenario=SMALL)
    people = work.load(SMALL.workers)[1]
    signal = Signal(features=64, classes=10)
    gain = 10 ** (-3.2) / people.distance_metres**2
    limit_watts, noise_watts = dbm_to_watts(23.0), dbm_to_watts(-114.0)
    # The mean square of a vector of squared norm 2 is 2 / 74; the receiver noise is 20 dB below it.
    slots = plan_orthogonal(SMALL, people, signal, squared_norm=2.0)
    np.testing.assert_allclose(slots.noise_variance, 2.0 / 74 / 100)
    np.testing.assert_allclose(slots.sent_watts, noise_watts / 2 / (2.0 / 74 / 100) / gain)
    np.testing.assert_allclose(slots.worker_energy_joules, slots.sent_watts * 2.0 / 794_000)
    assert slots.sent_watts.max() < limit_watts / 100
    # Workers beyond the limit send with all they may, and are received with more noise.
    weak = SMALL.with_overrides("radio.max_power_dbm=-6")
    limited = plan_orthogonal(weak, people, signal, squared_norm=2.0)
    far = slots.sent_watts > dbm_to_watts(-6.0)
    assert 0 < far.sum() < 400
    np.testing.assert_allclose(limited.sent_watts[far], dbm_to_watts(-6.0))
    np.testing.assert_allclose(limited.noise_variance[far], noise_watts / 2 / (dbm_to_watts(-6.0) * gain[far]))
    np.testing.assert_allclose(limited.noise_variance[~far], 2.0 / 74 / 100)


def test_over_the_air_methods_radiate_alike_and_federated_learns(work: Work) -> None:
    ours, federated = run("airmix", work), run("federated", work)
    # The same mu^2 from all workers: the received energy is fixed by the target, whatever is sent.
    assert federated.energy_joules == pytest.approx(ours.energy_joules, rel=1e-6)
    assert federated.uplink_symbols == 100 * 64 * 10
    assert federated.accuracy > 0.6
    assert federated.worker_multiply_accumulates >= 100 * 2 * 640


@pytest.mark.parametrize("name", ["mixup-features", pytest.param("paper", marks=pytest.mark.long)])
def test_other_scenarios_keep_target_and_adversary(work: Work, name: str) -> None:
    outcome = run(name, work)
    own, other = outcome.privacy
    assert own.epsilon <= 10.0 * (1 + 1e-9)
    assert (own.adversary, own.adjacency, own.accountant) == ("server", "remove-one", "gdp")
    assert other.adjacency == "replace-one"
    assert 0.0 < outcome.accuracy < 1.0
    assert outcome.uplink_symbols == {"mixup-features": 8000 * 74, "paper": 1000 * 74}[name]


def test_a_hidden_schedule_is_accounted_for(work: Work) -> None:
    hidden = replace(work, scenario=SMALL.with_overrides("privacy.adversary=release"))
    own = run("mixup-features", hidden).privacy[0]
    assert (own.adversary, own.accountant) == ("release", "pld")
    assert 9.0 < own.epsilon <= 10.0


def test_dp_sgd_noise_against_the_accountant_of_opacus() -> None:
    accountants = pytest.importorskip("opacus.accountants")
    design = calibrate_dp_sgd(SMALL.privacy, 6000)
    accountant = accountants.PRVAccountant()
    accountant.history = [(1 / math.sqrt(design.received_watts[0]), design.scheduled / 6000, design.slots)]
    assert accountant.get_epsilon(delta=1e-3) == pytest.approx(10.0, rel=0.02)


def test_dp_sgd_learns(work: Work) -> None:
    pytest.importorskip("opacus")
    outcome = run("dp-sgd", work)
    assert outcome.accuracy > 0.6
    assert outcome.privacy[0].adversary == "model"
    assert outcome.uplink_symbols is None


def test_defaults_leave_out_what_cannot_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opacus", None)  # as if it were not installed
    chosen, left_out = choose_methods(None, Scenario.preset("private-mnist"), Speed())
    assert set(left_out) == {"unmasked", "paper", "dp-sgd", "dp-logistic", "logistic"}
    assert left_out["unmasked"] == "the same as airmix"
    assert left_out["dp-sgd"] == "needs Opacus: pip install airmixml[dp-sgd]"
    assert left_out["logistic"] == "takes long on so many inputs: name it in --methods"
    assert set(chosen) | set(left_out) == set(METHODS.names)
    assert "logistic" in choose_methods(None, Scenario.preset("private-mnist"), Speed(device="cuda"))[1]
    many_rows = Scenario.preset("private-iris").with_overrides("workers.count=30000", "radio.scheduled=30000")
    assert "logistic" in choose_methods(None, many_rows, Speed())[0]
    assert "paper" in choose_methods(None, SMALL, Speed())[0]
    assert choose_methods("paper,raw", Scenario.preset("private-mnist"), Speed())[0].keys() == {"paper", "raw"}
    with pytest.raises(ScenarioError, match=r"--methods dp-sgd: needs Opacus"):
        choose_methods("raw,dp-sgd", SMALL, Speed())
    with pytest.raises(PluginError, match=r"--methods = 'pap': must be one of airmix, .*, raw; did you mean paper\?"):
        choose_methods("raw,pap", SMALL, Speed())


@pytest.mark.parametrize("name", METHODS.own)
def test_every_method_says_what_it_is(name: str) -> None:
    method = load_methods(name)[name]
    assert 10 < len(method.about) < 110
    assert all(hasattr(method, attribute) for attribute in METHODS.needs)
