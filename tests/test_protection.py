"""Protection: noise that nobody can repeat, nothing kept that was not hidden, and what repeated releases reveal."""

from __future__ import annotations

import copy
import json
import math
import pickle
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from randomgen import ChaCha
from sklearn.datasets import load_iris

from airmixml import AirMixClassifier, Scenario, ScenarioError, load_metrics, load_network, run, settle, simulate
from airmixml.arrays import dbm_to_watts
from airmixml.data import DataSet
from airmixml.messages import hide_values
from airmixml.privacy import gaussian_epsilon
from airmixml.radio.draws import AirSetting, draw_noise, draw_slots, in_blocks
from airmixml.radio.tally import placed_distances
from airmixml.randomness.slot_words import slot_words
from airmixml.runs import ProtectedResult
from airmixml.streams import Secret, Streams
from airmixml.workers import Population
from airmixml.workers.population import gather_rows

Airmix = Callable[..., subprocess.CompletedProcess[str]]
ROWS, CLASSES = load_iris(return_X_y=True)
BOUNDS = (0.0, 8.0)
NETWORK = ("radio.slots=40", "learner.epochs=2")


def fitted(mode: str, **changes: Any) -> AirMixClassifier:
    settings = {
        "recipe": "paper",
        "epsilon": 20.0,
        "slots": 400,
        "epochs": 2,
        "input_bounds": BOUNDS,
        "classes": (0, 1, 2),
        "random_state": 3,
        **changes,
    }
    return AirMixClassifier(mode=mode, **settings).fit(ROWS, CLASSES)


# --- Where the randomness comes from ----------------------------------------------------------------------------------


def test_the_cipher_is_chacha20() -> None:
    """Key stream of an all-zero key and nonce: RFC 8439, appendix A.1, test vector 1."""
    stream = bytes.fromhex("76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7")
    drawn = ChaCha(key=0, counter=0, rounds=20).random_raw(4)
    assert np.asarray(drawn, dtype="<u8").tobytes() == stream


def test_a_secret_decides_what_hides_and_nothing_else() -> None:
    first, second, seeded = Streams(7, Secret()), Streams(7, Secret()), Streams(7)
    for name in ("schedule", "fading", "phase", "ratios", "assignment", "noise"):
        drawn = [each.generator(name, 2).random(4).tolist() for each in (first, first, second, seeded)]
        assert drawn[0] == drawn[1]
        assert len({tuple(each) for each in drawn}) == 3
    for name in ("placement", "data", "training", "encoder"):
        drawn = [each.generator(name).random(4).tolist() for each in (first, second, seeded)]
        assert drawn[0] == drawn[1] == drawn[2]
    assert first.generator("encoder", 1).random() != second.generator("encoder", 1).random()
    assert first.generator("noise", 1).random() != first.generator("noise", 2).random()


def test_a_secret_stays_where_it_is() -> None:
    secret = Secret()
    for leave in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="never stored"):
            leave(secret)
    assert secret._key.hex() not in repr(secret)
    assert "ecret" not in repr(Streams(1, secret))


def test_secret_noise_has_more_bits_than_what_is_received() -> None:
    """Received numbers are float32: with noise of 24 bits, which values they can take would tell the sum below it."""
    noise = slot_words(Streams(0, Secret()), "noise").normals(range(10), 1000)
    assert (noise != noise.float()).double().mean() > 0.99


def test_secret_noise_is_normal_and_the_schedule_fair() -> None:
    """A million values: mean within 5 / 1000, variance within 5 sqrt(2) / 1000; workers alike within 5 deviations."""
    noise = slot_words(Streams(0, Secret()), "noise").normals(range(1000), 1000)
    assert abs(float(noise.mean())) < 5e-3
    assert abs(float(noise.var()) - 1.0) < 5e-3 * math.sqrt(2.0)
    scenario = Scenario.preset("paper-iris").with_overrides("radio.slots=5000", "workers.count=50")
    setting = replace(AirSetting.of(scenario, 4, 3, np.full(50, 100.0)), secret=Secret())
    sent = np.bincount(draw_slots(setting, range(5000)).scheduled_workers.numpy().ravel())
    expected, rate = 5000 * 8 / 50, 8 / 50
    assert np.abs(sent - expected).max() < 5 * math.sqrt(expected * (1 - rate))


def test_rounding_and_the_private_mean_are_secret_too() -> None:
    for preset, change in (("private-iris", "workers.bits=2"), ("private-iris", "workers.centre=private")):
        scenario = Scenario.preset(preset).with_overrides(change)
        first, second, seeded, again = (
            simulate(scenario, secret=secret).inputs for secret in (Secret(), Secret(), None, None)
        )
        assert torch.equal(seeded, again)
        assert not torch.equal(first, second)


# --- What is left behind ----------------------------------------------------------------------------------------------


def rows_read(model: AirMixClassifier) -> np.ndarray:
    """Read the rows from a fitted model: draw schedule, shares and noise again, take the noise off, solve for them."""
    scenario = model._scenario(len(ROWS), model._rows.seed)
    setting = AirSetting.of(scenario, 4, 3, placed_distances(scenario))
    clean, shares, first = [], np.zeros((len(model.mixtures_.inputs), len(ROWS))), 0
    for drawn in (draw_slots(setting, some) for some in in_blocks(range(scenario.radio.slots), 500)):
        draws, noise = drawn.numpy(), draw_noise(setting, range(first, first + len(drawn))).numpy()
        deviation = np.sqrt(dbm_to_watts(scenario.radio.noise_dbm) / 2.0 / draws.power_scale_watts)
        slots = np.arange(first, first + len(draws))
        clean.append(model.mixtures_.inputs[slots] - deviation[:, None] * noise[:, :4])
        np.put_along_axis(shares[slots[0] : slots[-1] + 1], draws.scheduled_workers, draws.ratios, axis=1)
        first += len(draws)
    return BOUNDS[1] * np.linalg.lstsq(shares, np.concatenate(clean), rcond=None)[0]


def test_rows_come_back_from_a_simulation_and_not_from_a_protected_fit() -> None:
    stored = {mode: pickle.loads(pickle.dumps(fitted(mode))) for mode in ("simulation", "protection")}
    assert np.abs(rows_read(stored["simulation"]) - ROWS).max() < 1e-2
    # Not even one, to a tenth of the range; a guess of the middle is nearer than what was read.
    errors = np.abs(rows_read(stored["protection"]) - ROWS).max(axis=1)
    assert (errors < 0.1 * BOUNDS[1]).sum() < 0.05 * len(ROWS)  # chance comes near a row now and then
    assert np.median(errors) > 0.3 * BOUNDS[1]


def test_two_targets_share_their_noise_in_a_simulation_alone() -> None:
    """y1 = c + s1 n and y2 = c + s2 n give c; with noise of their own, c is off by about s1 + s2."""
    scenario = Scenario.preset("private-iris")
    quieter = scenario.with_overrides("privacy.epsilon=1")
    for make, alike in ((lambda: None, True), (Secret, False)):
        loud, quiet = (simulate(each, secret=make()) for each in (scenario, quieter))
        deviations = [math.sqrt(each.report.noise_variance) for each in (loud, quiet)]
        difference = (quiet.inputs - loud.inputs)[0].numpy()
        noise = difference / (deviations[1] - deviations[0])
        clean = loud.inputs[0].numpy() - deviations[0] * noise
        error = np.abs(clean - loud.examples.clean_inputs[0].numpy()).max()
        assert (error < 1e-4 * deviations[0]) == alike


def test_a_protected_model_keeps_nothing_that_saw_no_noise() -> None:
    model = fitted("protection")
    assert not {"clipped_values_", "clipped_samples_", "energy_joules_"} & set(vars(model))
    assert b"Secret" not in pickle.dumps(model)
    assert model.privacy_.epsilon == pytest.approx(20.0)
    assert model.privacy_.given != "the schedule that was drawn"
    first, second = fitted("protection"), fitted("protection")
    assert not np.array_equal(first.mixtures_.inputs, second.mixtures_.inputs)


FORBIDDEN = ("snr", "clipped", "ledger", "energy", "limited", "resumed")


@pytest.mark.parametrize(
    ("preset", "changes", "public_test"), [("paper-iris", NETWORK, False), ("private-iris", (), True)]
)
def test_a_protected_folder(preset: str, changes: tuple[str, ...], public_test: bool, tmp_path: Path) -> None:
    scenario = Scenario.preset(preset).with_overrides(*changes)
    result = run(scenario, out=tmp_path / "here", private=True, public_test=public_test)
    assert isinstance(result, ProtectedResult)
    assert (result.accuracy is not None) == public_test
    assert load_metrics(tmp_path / "here") == result.to_dict()
    assert not [name for name in result.to_dict() if any(word in name for word in FORBIDDEN)]
    files = {str(path.relative_to(tmp_path / "here")) for path in (tmp_path / "here").rglob("*") if path.is_file()}
    curve = {"learning_curve.csv"} if public_test or changes else set()
    assert files == {"scenario.toml", "metrics.json", "model.npz", "figures/privacy.png"} | curve
    if curve:
        header = (tmp_path / "here" / "learning_curve.csv").read_text().splitlines()[0].split(",")
        assert ("test_accuracy" in header) == public_test
        assert ("training_loss" in header) == bool(changes)
    model = load_network(tmp_path / "here")
    assert model(torch.zeros(1, result.dataset.input_dim)).shape == (1, 3)
    assert all(each.given != "the schedule that was drawn" for each in result.privacy)
    assert result.privacy[0].epsilon <= scenario.privacy.epsilon


def test_a_protected_run_that_is_stopped_leaves_nothing_and_begins_again(tmp_path: Path) -> None:
    scenario = Scenario.preset("paper-iris").with_overrides(*NETWORK)

    def stop(stage: str, done: int, _total: int) -> None:
        if (stage, done) == ("training", 1):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(scenario, out=tmp_path / "here", private=True, progress=stop, checkpoint_seconds=0.0)
    left = {path.name for path in tmp_path.rglob("*") if path.is_file()}
    assert not {name for name in left if name.endswith((".npz", ".pt", ".csv", ".png"))}, left
    assert isinstance(run(scenario, out=tmp_path / "here", private=True), ProtectedResult)


def test_the_command(airmix: Airmix, tmp_path: Path) -> None:
    done = airmix("run", "--preset", "private-iris", "--private", "--out", "here")
    assert (done.returncode, done.stderr) == (0, "")
    assert "Protection: noise and schedule from the system's entropy" in done.stdout
    assert not [word for word in ("SNR", "energy", "dBm", "clipped", "%") if word in done.stdout]
    assert "not stated: it would reveal something about the test rows" in done.stdout
    simulated = airmix("run", "--preset", "private-iris", "--out", "there")
    assert "Simulation: noise and schedule follow from seed 0" in simulated.stdout
    assert json.loads((tmp_path / "there" / "metrics.json").read_text())["mode"] == "simulation"
    for folder in ("here", "there"):
        assert "held by up to" in (done if folder == "here" else simulated).stdout


def test_mistakes(airmix: Airmix) -> None:
    done = airmix("run", "--preset", "private-iris", "--public-test")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "airmix: error: --public-test: says something about a private run; give --private too\n"
    with pytest.raises(ScenarioError, match="--public-test"):
        run(Scenario.preset("private-iris"), public_test=True)
    with pytest.raises(ScenarioError, match="mode = 'secret': must be one of protection, simulation"):
        fitted("secret")


# --- Several releases, and rows on several workers --------------------------------------------------------------------


def test_releases_add_up(tmp_path: Path) -> None:
    """Two Gaussian mechanisms with the same mu are one with sqrt(2) mu."""
    scenario = Scenario.preset("private-iris")
    both = run(scenario, seeds=2, out=tmp_path / "both", private=True, pictures=False)
    assert isinstance(both, ProtectedResult)
    assert (both.releases, both.accuracy) == (2, None)
    single = load_metrics(tmp_path / "both" / "seed-0")
    mu = simulate(scenario).report.worker_squared_mu().max() ** 0.5
    assert single["privacy"][0]["epsilon"] == pytest.approx(gaussian_epsilon(mu, 0.01), rel=1e-9)
    assert both.privacy[0].epsilon == pytest.approx(gaussian_epsilon(math.sqrt(2.0) * mu, 0.01), rel=1e-9)
    loose = next(each for each in both.privacy if each.accountant == "paper-loose" and each.adversary == "server")
    same = [each for each in single["privacy"] if (each["adversary"], each["accountant"]) == ("server", "paper-loose")]
    assert (loose.epsilon, loose.delta) == pytest.approx((2 * same[0]["epsilon"], 0.02))
    parameters = [load_network(tmp_path / "both" / f"seed-{seed}").state_dict() for seed in (0, 1)]
    assert not torch.equal(*(each[next(iter(each))] for each in parameters))


@pytest.mark.parametrize("centre", ["public", "private"])
def test_a_row_on_several_workers(centre: str) -> None:
    """34 workers that send the same row move what is received as one that is 34 times as loud."""
    report = simulate(Scenario.preset("private-iris").with_overrides(f"workers.centre={centre}")).report
    one = report.privacy_of_a_row(1)
    assert (one.epsilon, one.unit) == (pytest.approx(report.privacy_against_server.epsilon), "row")
    many = report.privacy_of_a_row(34)
    assert many.unit == "row on 34 workers"
    if centre == "public":
        mu = math.sqrt(report.worker_squared_mu().max())
        assert many.epsilon == pytest.approx(gaussian_epsilon(34 * mu, 0.01), rel=1e-9)
    assert many.epsilon > 300 * one.epsilon


def test_inputs_beyond_the_unit_interval_are_refused() -> None:
    """(2, 0, 0, 0) and (0, 2, 0, 0) have norms that the paper's sensitivity allows and a distance that it does not."""
    scenario = Scenario.preset("paper-iris").with_overrides("workers.count=2", "radio.scheduled=1", "radio.slots=5")
    population = Population(distance_metres=np.full(2, 100.0), sample_index=np.arange(2))
    for value, fits in ((2.0, False), (-0.5, False), (1.0, True)):
        inputs = np.array([[value, 0, 0, 0], [0, value, 0, 0]], dtype=np.float32)
        labels = np.array([0, 1])
        dataset = DataSet(
            name="own",
            train_inputs=inputs,
            train_labels=labels,
            test_inputs=inputs[:0],
            test_labels=labels[:0],
            class_names=("a", "b", "c"),
            image_shape=None,
            clipped_values=0,
        )
        if fits:
            simulate(scenario, dataset=dataset, population=population)
            continue
        with pytest.raises(ScenarioError, match="must lie between 0 and 1"):
            simulate(scenario, dataset=dataset, population=population)


def test_another_scenario_in_a_setting_brings_its_own_draws() -> None:
    """Audits draw many runs from one setting, each with a seed of its own."""
    scenario = Scenario.preset("paper-iris").with_overrides("radio.slots=5")
    setting = AirSetting.of(scenario, 4, 3, np.full(2000, 100.0))
    other = replace(setting, scenario=scenario.with_seed(1))
    drawn = [draw_noise(each, range(5)).tolist() for each in (setting, other)]
    assert drawn[0] != drawn[1]


# --- Several rows per worker ------------------------------------------------------------------------------------------


def test_which_rows_of_a_worker_enter_is_secret_where_data_are_protected(monkeypatch: pytest.MonkeyPatch) -> None:
    """A public pick among all rows would change for others, too, when one worker has a row more."""
    picked = [Streams(0, Secret()).generator("data", 1).permutation(50).tolist() for _ in range(2)]
    assert picked[0] != picked[1]
    assert [Streams(0, Secret()).generator("data").integers(10**9) for _ in range(2)] == [
        Streams(0).generator("data").integers(10**9)
    ] * 2
    drawn_with: list[str] = []

    def gather(holders: Any, count: int, max_rows: int, rng: np.random.Generator) -> Any:
        drawn_with.append(type(rng.bit_generator).__name__)
        return gather_rows(holders, count, max_rows, rng)

    monkeypatch.setattr("airmixml.estimator.base.gather_rows", gather)
    workers = np.arange(len(ROWS)) // 3
    for mode in ("protection", "simulation"):
        given = {"input_bounds": BOUNDS, "classes": (0, 1, 2), "max_rows": 1, "random_state": 0}
        AirMixClassifier(epsilon=5.0, mode=mode, **given).fit(ROWS, CLASSES, worker=workers)
    assert drawn_with == ["ChaCha", "PCG64DXSM"]


def test_a_person_on_several_workers_is_stated_with_all_rows() -> None:
    """At rows_bound = 4 one row moves a quarter of a sum; a person on 7 workers moves seven whole ones."""
    changes = ("workers.holding=size-skewed", "workers.count=100", "workers.rows_bound=4", "privacy.epsilon=1")
    report = simulate(settle(Scenario.preset("private-table").with_overrides(*changes))).report
    mu = report.worker_squared_mu().max() ** 0.5
    delta = report.scenario.privacy.delta
    assert report.privacy_of_a_row(1).epsilon == pytest.approx(gaussian_epsilon(mu / 4.0, delta), rel=1e-6)
    person = report.privacy_of_a_row(7)
    assert (person.unit, person.epsilon) == (
        "person on 7 workers",
        pytest.approx(gaussian_epsilon(7.0 * mu, delta), rel=1e-6),
    )


def test_studies_of_skewed_holdings_are_not_protected(tmp_path: Path) -> None:
    scenario = Scenario.preset("private-table").with_overrides("workers.holding=label-skewed", "workers.count=60")
    with pytest.raises(ScenarioError, match=r'^workers.holding = "label-skewed": deals rows for a study'):
        run(scenario, private=True, out=tmp_path / "run")


def test_a_missing_package_is_named_in_protection_too() -> None:
    def fails() -> None:
        raise ModuleNotFoundError("No module named 'onnxruntime'")

    with pytest.raises(ModuleNotFoundError, match="onnxruntime"):
        hide_values(fails, "look closer")
