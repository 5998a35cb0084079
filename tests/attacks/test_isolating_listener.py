"""Noise and masks of workers in what adversaries hear, against every mask formed and matrices written out."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from levels_for_tests import level_of

from airmixml.attacks import Target, attack, choose_parts, eavesdropper, watch
from airmixml.attacks.eavesdropper import Listener, OverheardNoise, overhear_chapters, turned_by
from airmixml.attacks.isolating_listener import EVERYONE, alone, inverse_times, isolated_precision
from airmixml.attacks.listener_attacks import EAVESDROPPER
from airmixml.attacks.measured import area_under_curve
from airmixml.masks.graph import draw_graph, who_is_left
from airmixml.radio.draws import AirSetting, draw_slots
from airmixml.radio.masking import Masking, masking_of
from airmixml.randomness.slot_words import slot_words, uniforms
from airmixml.registries import ATTACKS
from airmixml.scenario import Scenario
from airmixml.streams import Streams
from airmixml.workers import place_coordinates

DIGITS = Scenario.preset("trustless-digits")
FEW = DIGITS.with_overrides("workers.count=200", "radio.scheduled=200", "privacy.mask_degree=6")
PLAIN = DIGITS.with_overrides("privacy.noise='receiver'", "privacy.adversary='server'")
NEAR = "privacy.eavesdropper_distance_metres=1"


def masking_with(seats: int, degree: int, *, own: float, pair: float, alone: float = 0.0) -> Masking:
    graph = draw_graph(seats, degree, 3) if degree else None
    honest = who_is_left(draw_graph(seats, max(degree, 2), 3))
    return Masking(own_watts=own, pair_watts=pair, self_watts=alone, graph=graph, honest=honest)


def covariance_of(masking: Masking) -> Any:
    """S = s^2 I + e^2 L, mask by mask; seats x seats."""
    graph = masking.graph
    seats = graph.seats if graph is not None else masking.honest.count
    found = masking.own_watts * np.eye(seats)
    for one, other in [] if graph is None else graph.edges:
        ends = np.zeros(seats)
        ends[one], ends[other] = 1.0, -1.0
        found += masking.pair_watts * np.outer(ends, ends)
    return found


def weights_of(seats: int, seed: int = 1) -> Any:
    """Gains of a listener to whom one worker is much louder than the others."""
    rng = np.random.default_rng(seed)
    weights = 0.3 * (rng.standard_normal(seats) + 1j * rng.standard_normal(seats))
    weights[0] *= 8.0
    return weights


def heard_noise(masking: Masking, weights: Any, sending: Any) -> OverheardNoise:
    noise = OverheardNoise(masking, len(weights))
    noise.add(torch.from_numpy(weights * sending)[None, :, None], torch.from_numpy(sending)[None])
    return noise


@pytest.mark.parametrize("degree", [0, 4, 11], ids=["own noise", "sparse", "everybody"])
def test_the_noise_that_is_heard_is_that_of_every_mask_formed(degree: int) -> None:
    """60,000 symbols: a covariance is off by less than 5 sqrt(2 / 60,000) of the variances, 3 %."""
    masking, weights, rng = masking_with(12, degree, own=0.5, pair=2.0), weights_of(12), np.random.default_rng(5)
    symbols = 60_000
    added = math.sqrt(0.5) * rng.standard_normal((12, symbols))
    for one, other in [] if masking.graph is None else masking.graph.edges:
        mask = math.sqrt(2.0) * rng.standard_normal(symbols)
        added[one] += mask
        added[other] -= mask
    thermal = math.sqrt(0.5) * (rng.standard_normal(symbols) + 1j * rng.standard_normal(symbols))
    received = weights @ added + thermal
    noise = heard_noise(masking, weights, np.ones(12, dtype=bool))
    drawn = np.cov(received.real, received.imag, bias=True)
    stated = noise.covariance()[0, 0].numpy()
    scale = np.sqrt(np.outer(np.diag(stated), np.diag(stated)))
    assert np.abs(drawn - stated).max() / scale.max() < 0.03
    assert np.abs((drawn - stated) / scale).max() < 0.03
    white = turned_by(noise.filters(), torch.from_numpy(received)[None, :, None])[0, :, 0].numpy()
    assert np.mean(np.abs(white) ** 2) == pytest.approx(1.0, abs=0.03)
    assert abs(np.mean(white**2)) < 0.03
    # Masks that cancelled here as they do at the server would leave far less.
    if degree:
        assert np.trace(stated) > 3.0 * (1.0 + 0.5 * np.square(np.abs(weights)).sum())


@pytest.mark.parametrize("alone", [0.0, 1.0], ids=["nothing recovered", "recovered"])
def test_masks_shared_with_absent_workers_are_heard_unless_they_were_revealed(alone: float) -> None:
    masking, weights = masking_with(12, 4, own=0.5, pair=2.0, alone=alone), weights_of(12)
    sending = np.arange(12) % 4 != 1
    graph = masking.graph
    assert graph is not None
    expected = np.eye(2) / 2.0
    pairs = np.column_stack([weights.real, weights.imag]) * sending[:, None]
    for each in pairs:
        expected += 0.5 * np.outer(each, each)
    for one, other in graph.edges:
        if alone and not (sending[one] and sending[other]):
            continue
        expected += 2.0 * np.outer(pairs[one] - pairs[other], pairs[one] - pairs[other])
    found = heard_noise(masking, weights, sending).covariance()[0, 0].numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_seats_in_parts_have_the_mean_over_graphs() -> None:
    """4,000 seats with 32 masks each: the drawn graph differs by about one part in sqrt(64,000)."""
    masking, weights = masking_with(4000, 32, own=0.5, pair=2.0), weights_of(4000)
    whole, parts = (OverheardNoise(masking, 4000) for _ in range(2))
    gains, sending = torch.from_numpy(weights)[None, :, None], torch.ones((1, 4000), dtype=torch.bool)
    whole.add(gains, sending)
    for first in (0, 1500):
        some = slice(first, 1500 if first == 0 else None)
        parts.add(gains[:, some], sending[:, some])
    exact, mean = (each.covariance()[0, 0].numpy() for each in (whole, parts))
    assert np.abs(exact - mean).max() < 0.02 * np.trace(exact)


def test_the_reception_is_the_whitened_sum() -> None:
    """Gains, S and the filter written out in NumPy for one slot of 200 workers; the listener's own draws taken off."""
    scenario = FEW.with_overrides(NEAR, "privacy.eavesdropper_noise_dbm=-100")
    view, masking = watch(scenario), masking_of(scenario)
    assert masking is not None
    dataset, population = view.dataset, view.transmission.population
    places = place_coordinates(200, scenario.workers.side_metres, Streams(0).generator("placement"))
    listener = Listener.of(scenario, places)
    received, _, heard_watts = next(iter(overhear_chapters(view.transmission, listener)))
    setting = AirSetting.of(scenario, dataset.input_dim, dataset.label_dim, population.distance_metres)
    draws = draw_slots(setting, range(1)).numpy()
    who = draws.scheduled_workers[0]
    phase = 2 * np.pi * uniforms(slot_words(Streams(0), "eavesdropper").words(range(1), 200)).numpy()[0]
    gains = np.sqrt(listener.power_gain[who] / 1e-13) / draws.magnitude[0] * np.exp(1j * phase)
    pairs = np.column_stack([gains.real, gains.imag])
    values, vectors = np.linalg.eigh(np.eye(2) / 2.0 + pairs.T @ covariance_of(masking) @ pairs)
    white = pairs @ (vectors / np.sqrt(2.0 * values)) @ vectors.T
    amplitude = math.sqrt(draws.power_scale_watts[0]) * draws.ratios[0]
    np.testing.assert_allclose(heard_watts[0], amplitude**2 * np.square(white).sum(axis=1), rtol=1e-9)
    inputs = dataset.train_inputs[population.sample_index[who]].astype(float)
    codes = dataset.label_code.coded(dataset.train_labels[population.sample_index[who]])
    products = scenario.workers.label_weight * np.einsum("sd,sc->sdc", inputs, codes).reshape(200, -1)
    expected = (amplitude * (white[:, 0] + 1j * white[:, 1])) @ products
    normals = Streams(0).generator("eavesdropper-noise", 0).standard_normal((1, 2, received.shape[1]), dtype=np.float32)
    clean = received[0].numpy() - (normals[0, 0] + 1j * normals[0, 1]) / math.sqrt(2)
    np.testing.assert_allclose(clean[-products.shape[1] :], expected, atol=3e-5)
    # A listener hears a function of what everyone hears: of nobody more than (S^-1)_ii.
    most = amplitude**2 * np.diag(np.linalg.inv(covariance_of(masking)))
    assert np.all(2.0 * heard_watts[0] <= most * (1 + 1e-9))


def test_the_inverse_is_that_of_the_matrix_with_and_without_colluders() -> None:
    masking, seats = masking_with(300, 8, own=1e-3, pair=2.0), np.array([0, 7, 299])
    honest = np.ones(300, dtype=bool)
    for colluders in (0, 60):
        honest[10 : 10 + colluders] = False
        known = [(one, other) for one, other in masking.graph.edges if honest[one] and honest[other]]  # type: ignore[union-attr]
        matrix = 1e-3 * np.eye(300)
        for one, other in known:
            matrix[[one, other], [one, other]] += 2.0
            matrix[[one, other], [other, one]] -= 2.0
        expected = np.diag(np.linalg.inv(matrix[honest][:, honest]))[np.cumsum(honest)[seats] - 1]
        filters = inverse_times(masking, honest, np.eye(300)[:, seats])
        np.testing.assert_allclose(filters[seats, range(len(seats))], expected, rtol=1e-9)
    complete = masking_with(12, 11, own=0.5, pair=2.0)
    found = np.diag(inverse_times(complete, np.ones(12, dtype=bool), np.eye(12)))
    np.testing.assert_allclose(found, np.diag(np.linalg.inv(covariance_of(complete))))


def test_what_everyone_knows_of_a_worker_adds_up_over_its_slots() -> None:
    scenario = FEW.with_overrides("radio.scheduled=50", "radio.slots=30")
    view, masking = watch(scenario), masking_of(scenario)
    assert masking is not None
    inverse = np.diag(np.linalg.inv(covariance_of(masking)))
    expected = np.zeros(200)
    for draws in view.draws:
        for slot in range(len(draws)):
            for seat, worker in enumerate(draws.scheduled_workers[slot]):
                expected[worker] += draws.power_scale_watts[slot] * draws.ratios[slot, seat] ** 2 * inverse[seat]
    np.testing.assert_allclose(isolated_precision(view, np.arange(200), 200), expected, rtol=1e-9)


def test_nothing_hides_a_worker_that_brings_no_noise() -> None:
    assert np.all(np.isinf(isolated_precision(watch(PLAIN), alone(np.arange(5), 1200), 5)))


@pytest.mark.parametrize("air", [(), ("air.reciprocity_nmse_db=-30",)], ids=["ideal", "gain errors"])
def test_the_server_knows_the_noise_in_the_sum(air: tuple[str, ...]) -> None:
    """Symbols of one slot, 2,795 of them: the variance is known to 5 sqrt(2 / 2,795), 13 %."""
    scenario = DIGITS.with_overrides(*air)
    view, masking = watch(scenario), masking_of(scenario)
    assert masking is not None
    inputs = view.dataset.train_inputs[view.held_index].astype(float)
    codes = view.dataset.label_code.coded(view.dataset.train_labels[view.held_index])
    clean = 0.5 * np.einsum("sd,sc->dc", inputs, codes).ravel() / 1200
    noise = view.symbols[0].double().numpy()[-len(clean) :] - clean
    assert np.mean(noise**2) * view.weights[0] == pytest.approx(1.0, abs=5 * math.sqrt(2 / len(clean)))
    if not air:
        beta = float(view.draws[0].power_scale_watts[0])
        by_hand = 10 ** (scenario.radio.noise_dbm / 10 - 3) / 2 + 1200 * masking.own_watts
        assert view.weights[0] == pytest.approx(beta / by_hand)


def run_on(scenario: Scenario, attack: Any) -> Any:
    target = Target(scenario=scenario, examples=np.zeros(0, dtype=np.int64))
    target.examples = np.unique(target.view.held_index)[:10]
    return attack.run(target)


def test_an_eavesdropper_at_one_metre_reads_workers_without_masks_and_nobody_with_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hidden = run_on(DIGITS.with_overrides(NEAR), EAVESDROPPER)
    assert level_of(hidden.findings) == ""
    assert hidden.findings.clearest_slots.p_value > 1e-3

    def without_masks(scenario: Scenario) -> Masking | None:
        masking = masking_of(scenario)
        return None if masking is None else replace(masking, pair_watts=0.0, own_watts=1e-9 * masking.own_watts)

    monkeypatch.setattr(eavesdropper, "masking_of", without_masks)
    seen = run_on(DIGITS.with_overrides(NEAR), EAVESDROPPER)
    assert level_of(seen.findings) == "exposed"
    assert seen.findings.clearest_slots.identified >= 5


def test_everyone_names_who_brings_no_noise_and_nobody_at_epsilon_one() -> None:
    plain = run_on(PLAIN, EVERYONE)
    assert plain.findings.clearest_slots.identified == plain.findings.clearest_slots.looked_at == 10
    assert plain.findings.linkage.auc == 1.0
    assert level_of(plain.findings) == "exposed"
    for seen, original in zip(plain.arrays["examples"], plain.arrays["originals"], strict=True):
        assert np.corrcoef(seen, original)[0, 1] > 0.98
    hidden = run_on(DIGITS.with_overrides("privacy.epsilon=1"), EVERYONE)
    assert hidden.findings.clearest_slots.p_value > 1e-3
    assert level_of(hidden.findings) == ""
    scores = hidden.arrays["held_scores"], hidden.arrays["decoy_scores"]
    assert area_under_curve(*scores) == hidden.findings.linkage.auc
    assert len(scores[0]) == 100


def test_the_scores_of_everyone_have_the_law_of_the_claim() -> None:
    """(v . y - |v|^2 / 2) / variance of the sample that is held is normal, m / 2 and m, with m = |v|^2 / variance.

    A hundred workers: the mean of (score - m / 2) / sqrt(m) is below 0.5 in size, and its variance within 70 %.
    """
    found = run_on(DIGITS, EVERYONE)
    view = watch(DIGITS)
    rows = found.arrays["held_rows"]
    workers, _ = Target(scenario=DIGITS, examples=np.unique(view.held_index)[:10]).some_workers(100, 10**9 + 2)
    variance = 1.0 / isolated_precision(view, alone(workers, len(view.held_index)), len(workers))
    inputs = view.dataset.train_inputs[rows].astype(float)
    energy = np.square(inputs).sum(axis=1)
    codes = np.square(view.dataset.label_code.coded(view.dataset.train_labels[rows])).sum(axis=1)
    m = energy * (energy + 0.25 * codes) / variance
    standard = (found.arrays["held_scores"] - m / 2) / np.sqrt(m)
    assert abs(standard.mean()) < 0.5
    assert 0.3 < standard.var() < 1.7
    assert m.max() < 4.5  # mu of epsilon 10 and delta 1e-5 is 1.96; D^2 is the largest |v|^2


def test_everyone_attacks_by_default_where_workers_bring_noise() -> None:
    assert "everyone" not in choose_parts(None, PLAIN)
    assert choose_parts(None, DIGITS) == ATTACKS.names
    assert choose_parts("everyone", PLAIN) == ("everyone",)


def test_a_flower_on_twenty_workers_is_promised_nothing(tmp_path: Path) -> None:
    scenario = Scenario.preset("trustless-iris").with_overrides("privacy.epsilon=1", NEAR)
    case = attack(scenario, ["eavesdropper", "everyone"], out=tmp_path / "found", pictures=False).to_dict()
    assert case["grade"] == "nothing promised"
    assert case["everyone"]["clearest_slots"]["identified"] <= 3
    assert case["claimed"]["everyone"] == pytest.approx(1.0, rel=1e-3)
    assert case["verdict"].startswith("PROMISE TOO WEAK against everyone: epsilon 1 per worker by ")
    assert case["verdict"].endswith(". Nothing found; promise too weak against the eavesdropper.")
    with np.load(tmp_path / "found" / "parts" / "everyone.npz") as kept:
        assert {"held_rows", "held_scores", "decoy_scores"} <= set(kept.files)
