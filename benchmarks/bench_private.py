"""``private-mnist`` from images to accuracy, and the least-squares attack of ``paper-mnist``, beside other libraries.

Images are made up and in memory before the clock starts; both sides scale them and compute the same features.
"""

from __future__ import annotations

import time
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array, diags_array
from scipy.sparse.linalg import lsmr, norm
from sklearn.linear_model import Ridge

from airmixml import Scenario, Speed, simulate_blocks
from airmixml.arrays import dbm_to_watts
from airmixml.attacks.server_attacks import solve_least_squares
from airmixml.attacks.watched import MixingMatrix
from airmixml.data import scale_to_unit
from airmixml.edge.training import learn
from airmixml.impairments.frame import frame_of
from airmixml.scenario import RunContext
from airmixml.streams import Streams
from airmixml.workers import Signal, deploy, encode, load_dataset
from bench_kit import Row, alternately, row, seconds_of
from made_up_digits import CLASSES, SIDE, images, made_up_digits, on_made_up_digits

PRIVATE = "`private-mnist` end to end"
PRIVATE_ON_GPU = "`private-mnist` end to end, one GPU"
SKLEARN = "scikit-learn: same features, exact normal equations, no radio"
ATTACK, ATTACK_ON_GPU = "least-squares attack of `paper-mnist`", "least-squares attack of `paper-mnist`, one GPU"
IDEAL_AIR = "ours on the ideal air"
LSMR = "SciPy `lsmr`, column by column"
COLUMNS = 794
TOLERANCE = 1e-5  # of the gradient, where a column stops
_COLUMNS_TRIED = 2


def rows(device: str, quick: bool) -> list[Row]:
    """Return what both take on the device; the libraries run on the CPU alone."""
    return [_private_row(device, quick), *_air_rows(device, quick), _attack_row(device, quick)]


def _preset(samples: int, features: int) -> Scenario:
    """Return the preset with so many workers and features; images are made before the clock starts, and kept."""
    preset = Scenario.preset("private-mnist").with_overrides(
        f"workers.count={samples}", f"workers.train_samples={samples}", f"radio.scheduled={samples}"
    )
    for seed, count in ((0, samples), (1, 10_000)):
        images(count, seed)
    return on_made_up_digits(preset, samples).with_overrides(f"workers.features={features}")


def _air_rows(device: str, quick: bool) -> list[Row]:
    """Return what all gains of `campus` cost, and how that grows with workers and pieces of a slot."""
    found = []
    for share, features in ((1, 256),) if quick else ((1, 1024), (2, 1024), (4, 1024), (1, 512), (1, 256)):
        samples = 4000 if quick else 60_000 // share
        ideal = _preset(samples, features)
        on_air = ideal.on_air("campus")
        signal = Signal.of(ideal.workers, features, CLASSES)
        pieces = frame_of(on_air.air, signal.symbols).pieces
        scenarios = {"ours": on_air, "theirs": ideal}
        works = {name: partial(learned, scenario, device) for name, scenario in scenarios.items()}
        best, processor = alternately(works, repeats=1 if quick else 2, device=device), {}
        for name, work in works.items():
            started = time.process_time()
            work()
            processor[name] = time.process_time() - started
        found.append(
            row(
                f"`private-mnist` on `campus`: {samples:,} workers, {pieces:,} pieces",
                IDEAL_AIR,
                best["ours"],
                best["theirs"],
                target={"within": 4},
                note=f"{processor['ours']:.1f} s of processor time, {processor['theirs']:.1f} s on the ideal air",
                processor_ratio=processor["ours"] / processor["theirs"],
            )
        )
    return found


def _private_row(device: str, quick: bool) -> Row:
    samples = 4000 if quick else 60_000
    scenario = _preset(samples, 256 if quick else 1024)
    works = {"ours": lambda: learned(scenario, device), "theirs": lambda: normal_equations(scenario, samples)}
    if device != "cpu":
        works["ours"]()  # a GPU starts up once
    best = alternately(works, repeats=1 if quick else 3, device=device)
    target = {"within": 1.5} if device == "cpu" else {"seconds": 1.0}
    work = PRIVATE if device == "cpu" else PRIVATE_ON_GPU
    return row(work, SKLEARN, best["ours"], best["theirs"], target=target)


def learned(scenario: Scenario, device: str) -> float:
    """Scale, encode, send over the air, learn and score; return the accuracy."""
    dataset = load_dataset(scenario.workers, Streams(0), device=device)
    return learn(
        scenario, dataset=dataset, context=RunContext(speed=Speed(device=device))
    ).trained.history.final_accuracy


def normal_equations(scenario: Scenario, samples: int) -> float:
    """Scale, encode, learn from the exact sums and score, as a user of scikit-learn would; return the accuracy."""
    features, labels = [], []
    for seed, count in ((0, samples), (1, 10_000)):
        inputs, classes = images(count, seed)
        scaled, _ = scale_to_unit(inputs, np.zeros(SIDE**2), np.ones(SIDE**2))
        features.append(encode(scenario.workers, scaled, image_shape=(SIDE, SIDE), streams=Streams(0))[0])
        labels.append(classes)
    model = Ridge(alpha=1e-3, fit_intercept=False, solver="cholesky")
    model.fit(features[0], np.eye(CLASSES, dtype=np.float32)[labels[0]])
    return float((model.predict(features[1]).argmax(axis=1) == labels[1]).mean())


def _attack_row(device: str, quick: bool) -> Row:
    columns = 112  # as many as are solved for at once on a CPU
    slots, workers = (2000, 1200) if quick else (100_000, 60_000)
    scenario = Scenario.preset("paper-mnist").with_overrides(
        f"radio.slots={slots}", f"workers.count={workers}", f"workers.train_samples={workers}"
    )
    matrix, shares, mixtures = attacked(scenario, columns, torch.device(device))
    none = torch.zeros(columns, device=device)
    found: list[torch.Tensor] = []

    def ours() -> None:
        found[:] = [solve_least_squares(matrix, mixtures, ridge=none, tolerance=TOLERANCE)]

    if device != "cpu":
        ours()
    ours_seconds = min(seconds_of(ours, device) for _ in range(2)) / columns
    right = mixtures.cpu().double().numpy()
    size = norm(shares)
    errors, theirs_seconds, gradients = [], 0.0, []
    for column in range(_COLUMNS_TRIED):
        target, solved = right[:, column], found[0][:, column].cpu().double().numpy()
        # lsmr stops at ||A^T r|| < atol ||A|| ||r||: that is our rule where atol is this.
        rest = np.linalg.norm(target - shares @ solved)
        atol = TOLERANCE * float(np.linalg.norm(shares.T @ target)) / (size * rest)
        answers: list[NDArray[np.float64]] = []

        def theirs(target: NDArray[np.float64] = target, atol: float = atol, answers: list = answers) -> None:
            answers[:] = [lsmr(shares, target, atol=atol, btol=0.0, conlim=0.0, maxiter=1000)[0]]

        theirs_seconds += seconds_of(theirs) / _COLUMNS_TRIED
        errors.append(np.linalg.norm(solved - answers[0]) / np.linalg.norm(answers[0]))
        gradients.append(np.linalg.norm(shares.T @ (target - shares @ solved)) / np.linalg.norm(shares.T @ target))
    return row(
        ATTACK if device == "cpu" else ATTACK_ON_GPU,
        LSMR,
        COLUMNS * ours_seconds,
        COLUMNS * theirs_seconds,
        target={"faster": 20},
        note=f"{COLUMNS} columns: ours extrapolated from {columns} at once, theirs from {_COLUMNS_TRIED}",
        relative_difference=float(max(errors)),
        relative_gradient=float(max(gradients)),
    )


def attacked(scenario: Scenario, columns: int, device: torch.device) -> tuple[MixingMatrix, csr_array, torch.Tensor]:
    """Return A for both sides, and the mixtures of so many numbers less the public mean, weighted; slots x columns."""
    dataset = made_up_digits(scenario.workers.train_samples, 10, inputs=columns - CLASSES)
    population = deploy(scenario.workers, dataset, Streams(0))
    blocks = list(simulate_blocks(scenario, dataset, population, speed=Speed(device=str(device))))
    draws = [block.draws for block in blocks]
    weights = np.concatenate([each.power_scale_watts for each in draws])
    weights = weights / (dbm_to_watts(scenario.radio.noise_dbm) / 2.0)
    received = torch.cat([torch.cat([block.inputs, block.labels], dim=1) for block in blocks])
    matrix = MixingMatrix.of(draws, scenario.workers.count, weights, device)
    roots = torch.from_numpy(np.sqrt(weights)).float().to(device)[:, None]
    centre = torch.full((1, columns), 0.5, device=device)
    ratios = np.concatenate([each.ratios for each in draws])
    scheduled = np.concatenate([each.scheduled_workers for each in draws])
    slot = np.repeat(np.arange(len(ratios)), ratios.shape[1])
    shares = coo_array((ratios.ravel(), (slot, scheduled.ravel())), shape=(len(ratios), scenario.workers.count))
    weighted = csr_array(diags_array(np.sqrt(weights)) @ shares)
    surplus = received * roots - matrix.mix(centre.expand(matrix.workers, -1).contiguous())
    return matrix, weighted, surplus
