"""The noise of a real run is looked at: broken in the code that runs use, it is caught, and sound noise never is."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import chi2
from verdicts_for_tests import verdict_of

from airmixml.audit import Audit, noise_check
from airmixml.audit.faults import SOUND
from airmixml.audit.noise_check import NoiseCheck, NoiseMeter
from airmixml.files import from_plain, to_plain
from airmixml.radio import air, draws, transmission
from airmixml.streams import Streams

Audited = Callable[..., Audit]
FEW: dict[str, Any] = {"trials": 200}


def measured(noise: np.ndarray, **options: Any) -> NoiseCheck:
    """Check numbers that were added to a signal, in one block or in several."""
    rows, symbols = noise.shape
    beta = np.linspace(1.0, 4.0, rows)
    clean = torch.rand(rows, symbols, generator=torch.Generator().manual_seed(0))
    received = clean + torch.from_numpy((noise / np.sqrt(beta)[:, None]).astype(np.float32))
    meter = NoiseMeter(symbols, 2.0)
    for part in np.array_split(np.arange(rows), options.get("blocks", 1)):
        meter.add(received[part], clean[part], beta[part])
    return meter.finish(1e-6)


def standard(rows: int, symbols: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((rows, symbols))


REAL_DRAW = draws.draw_noise


def scaled(factor: float) -> Callable[..., Any]:
    return lambda *arguments: factor * REAL_DRAW(*arguments)


def the_same_again(setting: Any, slots: range, *device: Any) -> Any:
    """From slot 400 on the noise of the first slots comes back."""
    noise, first = REAL_DRAW(setting, slots, *device), REAL_DRAW(setting, range(400), *device)
    for place, slot in enumerate(slots):
        noise[place] = noise[place] if slot < 400 else first[slot % 400]
    return noise


def none_in_one_slot(setting: Any, slots: range, *device: Any) -> Any:
    loud = torch.arange(slots.start, slots.stop) != 389
    return REAL_DRAW(setting, slots, *device) * loud[:, None]


REAL_RECEIVE = air.receive_mixtures


def half_of_it(clean: Any, noise: Any, *rest: Any) -> Any:
    return REAL_RECEIVE(clean, noise / 2.0, *rest)


BROKEN = {
    "half the draws": (transmission, "draw_noise", scaled(0.5), "of the stated deviation"),
    "no noise": (transmission, "draw_noise", scaled(0.0), "has 0 of the stated deviation"),
    "half of it received": (air, "receive_mixtures", half_of_it, "of the stated deviation"),
    "the same again": (transmission, "draw_noise", the_same_again, "repeats itself"),
    "a slot without": (transmission, "draw_noise", none_in_one_slot, "is too weak in some slots or symbols"),
}


@pytest.mark.parametrize(("name", "adversary"), [*((name, "server") for name in BROKEN), ("half the draws", "release")])
def test_noise_that_is_broken_in_the_real_code(
    name: str, adversary: str, audited: Audited, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, function, instead, why = BROKEN[name]
    monkeypatch.setattr(module, function, instead)
    audit = audited("paper-iris", adversary=adversary, **FEW)
    assert audit.caught
    assert audit.noise_checks[0].passed is False
    assert why in audit.noise_checks[0].why_not
    verdict = verdict_of([audit], SOUND)
    assert verdict.startswith(f"BROKEN: {audit.noise_checks[0].why_not}")


def test_one_slot(audited: Audited) -> None:
    # One slot of 30 symbols tells little, so more runs are listened to.
    sound = audited("private-iris", adversary="server", **FEW)
    assert sound.noise_checks[0].runs == 167
    assert sound.noise_checks[0].passed is True


@pytest.mark.parametrize("name", ["half the draws"])
def test_one_slot_of_broken_noise(name: str, audited: Audited, monkeypatch: pytest.MonkeyPatch) -> None:
    module, function, instead, _ = BROKEN[name]
    monkeypatch.setattr(module, function, instead)
    assert audited("private-iris", adversary="server", **FEW).caught


@pytest.mark.parametrize("seed", [1000, 2**63 - 3])
def test_runs_begin_with_the_audited_seed(seed: int, audited: Audited, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noise_check, "_ENOUGH_NUMBERS", 300)
    seeds, real = [], noise_check.deploy

    def deploy(workers: Any, samples: int, streams: Streams) -> Any:
        seeds.append(streams.seed)
        return real(workers, samples, streams)

    monkeypatch.setattr(noise_check, "deploy", deploy)
    check = audited("private-iris", f"seed={seed}", adversary="server", **FEW).noise_checks[0]
    assert seeds == [(seed + run) % 2**63 for run in range(10)]
    assert check.passed is True


@pytest.mark.parametrize("seed", range(2))
def test_a_sound_run_passes(seed: int, audited: Audited) -> None:
    audit = audited("paper-iris", f"seed={seed}", adversary="server", **FEW)
    check = audit.noise_checks[0]
    assert check.passed is True
    assert (check.runs, check.slots, check.numbers) == (1, 1000, 7000)
    assert check.deviation == pytest.approx(1.0, abs=5 / math.sqrt(2 * 7000))
    assert not audit.caught


@pytest.mark.parametrize(
    "overrides",
    [
        ("workers.encoder=clip", "workers.label_weight=0.1"),
        ("mixing.power=max", "radio.scheduled=1"),
        ("radio.schedule=poisson", "mixing.policy=equalmix", "mixing.power=fixed", "radio.scheduled=1"),
        ("workers.encoder=clip", "workers.sends=moments", "learner.model=lda", "privacy.sensitivity=encoder"),
    ],
)
def test_sound_runs_of_other_kinds(overrides: tuple[str, ...], audited: Audited) -> None:
    audit = audited("paper-iris", *overrides, "radio.slots=300", adversary="server", **FEW)
    assert audit.noise_checks[0].passed is True


def test_numbers_by_hand() -> None:
    noise = standard(500, 6)
    check = measured(noise)
    squares = float((noise**2).sum())
    assert check.deviation == pytest.approx(math.sqrt(squares / 3000), rel=1e-5)
    assert check.upper == pytest.approx(math.sqrt(squares / chi2.ppf(1e-6, 3000)), rel=1e-5)
    assert check.passed is True
    in_parts = measured(noise, blocks=7)
    for name, value in vars(check).items():
        assert getattr(in_parts, name) == (value if name == "of" else pytest.approx(value, rel=1e-9))
    assert from_plain(NoiseCheck, to_plain(check)) == check


def test_false_alarms_are_rare() -> None:
    # Of 150 sound runs about two have a p-value below 1 % in each check; more than eight, one time in 10,000.
    checks = [measured(standard(200, 5, seed)) for seed in range(150)]
    assert all(check.passed for check in checks)
    for name in ("quietest_p_value", "repeated_p_value", "shape_p_value"):
        assert sum(getattr(check, name) < 0.01 for check in checks) <= 8


def test_kinds_of_wrong_noise() -> None:
    right = standard(600, 5)
    wrong = [
        ("of the stated deviation", 0.9 * right),
        ("is too weak in some slots or symbols", right * (np.arange(600) != 77)[:, None]),
        ("is too weak in some slots or symbols", 1.2 * right * (np.arange(5) != 2)),
        ("repeats itself", np.tile(right[:100], (6, 1))),
        ("repeats itself", np.tile(right[:1], (600, 1))),
        ("repeats itself", right[:, :1] + np.zeros((1, 5))),
    ]
    for words, noise in wrong:
        assert words in measured(noise).why_not
        assert measured(noise).passed is False
    uniform = np.random.default_rng(0).uniform(-math.sqrt(3), math.sqrt(3), (600, 5))
    assert measured(uniform).why_not == "the noise of a real run is not Gaussian"
    no_number = right.copy()
    no_number[3, 2] = math.nan
    assert measured(no_number).passed is False
    # More noise than stated protects better, whatever its shape.
    assert measured(3.0 * uniform).passed is True
    assert measured(2.0 * right).passed is True


def test_a_signal_too_loud_for_float32() -> None:
    meter = NoiseMeter(3, 2.0)
    meter.add(torch.full((4, 3), 1e6), torch.full((4, 3), 1e6), np.ones(4))
    check = meter.finish(1e-6)
    assert (check.passed, check.slots_left_out, check.deviation) == (None, 4, None)


def test_a_few_of_very_many_numbers_rounded_to_nothing_are_no_fault() -> None:
    """One slot of half a million symbols: float32 adds nothing to some of them, and each stands for itself."""
    noise = standard(1, 500_000)
    noise[0, :20] = 0.0
    assert measured(noise).passed
    assert not measured(0.98 * noise).passed  # two per cent too little is seen
