"""Audits of an isolating listener: filters against inverses, masks against their law, faults on purpose."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from airmixml import Scenario, ScenarioError
from airmixml.audit import Audit, AuditSettings, fault_named, noise_check
from airmixml.audit.isolating_listener import FormedMasks, check_added_noise, draw_honest, isolating_trials
from airmixml.audit.trials import Bench, Keeper
from airmixml.masks import keys as expansion
from airmixml.masks.graph import draw_graph, most_absent_neighbours, who_is_left
from airmixml.privacy.gaussian import gaussian_mu
from airmixml.radio.draws import AirSetting
from airmixml.radio.masking import Masking, masking_of
from airmixml.radio.tally import placed_distances
from airmixml.scenario import RunContext

Audited = Callable[..., Audit]
FEW = ("workers.count=150", "radio.scheduled=150", "privacy.epsilon=1", "privacy.mask_degree=16")
FEWER = (*FEW, "workers.count=60", "radio.scheduled=60")
MANY = "privacy.mask_degree=120"
OWN, PAIR = 0.5, 3.0


def masking(seats: int, degree: int, seed: int = 1) -> Masking:
    graph = draw_graph(seats, degree, seed)
    return Masking(own_watts=OWN, pair_watts=PAIR, self_watts=0.0, graph=graph, honest=who_is_left(graph))


def bench_of(*overrides: str, fault: str = "", trials: int = 20_000) -> Bench:
    scenario = Scenario.preset("trustless-iris").with_overrides(*FEW, *overrides)
    return Bench(
        air=AirSetting.of(scenario, 5, 3, placed_distances(scenario)),
        classes=3,
        adjacency="remove-one",
        trials=trials // 2,
        fault=fault_named(fault),
        keeper=Keeper(),
        context=RunContext(),
    )


def test_formed_masks_have_their_strength_and_cancel_in_a_sum() -> None:
    found = masking(10, 6)
    formed = FormedMasks.of(found, 0, np.ones(10, dtype=np.bool_), seed=3)
    assert formed.count == 6
    own, others = formed.added(0, 1, 40_000)
    assert own.var() == pytest.approx(6 * PAIR, rel=5.0 * math.sqrt(2.0 / 40_000))
    np.testing.assert_allclose(own, -others, atol=1e-12)  # each end forms them by itself
    assert abs(np.corrcoef(own, formed.added(0, 2, 40_000)[0])[0, 1]) < 0.025


def test_reused_seeds_are_the_same_in_every_slot() -> None:
    formed = FormedMasks.of(masking(10, 6), 0, np.ones(10, dtype=np.bool_), seed=3, reused=True)
    assert np.ptp(np.concatenate([formed.added(0, slot, 5)[0] for slot in range(3)])) == 0.0


def test_absent_are_called_as_many_neighbours_as_workers_put_up_with() -> None:
    scenario = Scenario.preset("trustless-iris").with_overrides(
        *FEW, "privacy.colluders=10", "privacy.most_absent=0.1", MANY
    )
    found = masking_of(scenario)
    assert found is not None
    assert found.graph is not None
    known = ~draw_honest(scenario, found, 5, np.random.default_rng(0))
    assert not known[5]
    assert known.sum() == 10 + 15
    colluding = draw_honest(scenario.with_overrides("privacy.most_absent=0"), found, 5, np.random.default_rng(0))
    absent = known & colluding
    beside, limit = found.graph.adjacency @ absent.astype(float), most_absent_neighbours(found.graph, 15)
    assert beside.max() <= limit
    assert limit > 15
    assert (found.graph.adjacency.toarray()[5, absent] > 0.0).all()


@pytest.mark.parametrize("noise", ["workers", "masked"])
def test_scores_have_the_law_of_the_claim(noise: str) -> None:
    """The claim is mu of epsilon 1 with a bound on (S^-1)_ii; trials have that of the drawn graph, a little less."""
    bench = bench_of(
        f"privacy.noise={noise}", "privacy.mask_degree=16" if noise == "masked" else "privacy.mask_degree=0"
    )
    trials = isolating_trials(bench, 0)
    found = (trials.scores_in.mean() - trials.scores_out.mean()) / trials.scores_in.std()
    claimed, error = gaussian_mu(1.0, 0.01), 5.0 * math.sqrt(2.0 / 10_000)
    assert 0.97 * claimed - error < found < claimed + error
    # Log-likelihood ratios: their mean is half of their variance.
    assert trials.scores_in.mean() == pytest.approx(trials.scores_in.var() / 2.0, abs=0.05)


@pytest.mark.parametrize(
    ("air", "fault"),
    [
        *(("ideal", fault) for fault in ("", "no-mask", "reused-seed", "half-noise", "wrong-sensitivity")),
        *(("lab", fault) for fault in ("", "no-mask")),
    ],
)
def test_faults_are_caught_and_a_sound_mechanism_is_not(air: str, fault: str, audited: Audited) -> None:
    audit = audited("trustless-iris", *FEWER, f"air.preset={air}", adversary="everyone", fault=fault, trials=4000)
    assert audit.caught is bool(fault)
    refuted = any(map(audit.refutes, audit.bounds))
    # What is wrong with noise and masks is found where they are formed, and hardly in the attack.
    assert refuted or fault != "wrong-sensitivity"
    assert audit.noise_checks[0].passed is (fault in ("", "wrong-sensitivity"))


def test_colluders_and_absent_workers_are_counted_with(audited: Audited) -> None:
    options: dict[str, Any] = {"adversary": "everyone", "trials": 5000}
    with_both = (MANY, "privacy.colluders=10", "privacy.most_absent=0.1")
    sound = audited("trustless-iris", *FEW, *with_both, **options)
    assert not sound.caught
    assert audited("trustless-iris", *FEW, *with_both, fault="no-mask", **{**options, "trials": 1000}).caught


def test_masks_that_are_too_weak_in_the_real_code(audited: Audited, monkeypatch: pytest.MonkeyPatch) -> None:
    real = expansion.standard_normals

    def weaker(*arguments: Any) -> NDArray[np.float64]:
        return 0.1 * real(*arguments)

    monkeypatch.setattr(expansion, "standard_normals", weaker)
    audit = audited("trustless-iris", *FEWER, adversary="everyone", trials=4000)
    assert re.search("too weak|of the stated deviation", audit.noise_checks[0].why_not)
    assert audit.caught


def test_masks_that_are_alike_in_all_slots_in_the_real_code(monkeypatch: pytest.MonkeyPatch) -> None:
    bench, real = bench_of(), expansion.standard_normals
    monkeypatch.setattr(expansion, "standard_normals", lambda seed, _slot, *rest: real(seed, 0, *rest))
    check = check_added_noise(bench, 0, 1e-6)
    assert "repeats itself" in check.why_not


@pytest.mark.parametrize("adversary", ["server", "release"])
def test_sums_are_hidden_by_what_workers_bring(
    adversary: str, audited: Audited, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(noise_check, "_ENOUGH_NUMBERS", 900)
    sound = audited("trustless-iris", *FEW, adversary=adversary)
    assert not sound.caught
    assert sound.noise_checks[0].deviation == pytest.approx(1.0, abs=0.14)  # 900 numbers: within 6 of 2.4 %
    assert sound.sharpest is not None
    assert (sound.best.epsilon or 0.0) > 0.75 * (sound.sharpest.epsilon or 0.0)
    broken = audited("trustless-iris", *FEW, adversary=adversary, fault="half-noise")
    assert any(map(broken.refutes, broken.bounds))


@pytest.mark.parametrize(
    ("overrides", "settings", "message"),
    [
        (
            ("privacy.noise=receiver", "privacy.adversary=server"),
            {"adversaries": ("everyone",)},
            "nothing hides a worker",
        ),
        ((), {"fault": "gain-above-bound"}, "grows with its gain"),
        (("privacy.noise=workers", "privacy.mask_degree=0"), {"fault": "no-mask"}, "there are no masks"),
        ((), {"fault": "reused-seed", "adversaries": ("server",)}, "masks cancel in what others hear"),
        (("air.preset=line-of-sight",), {"adversaries": ("server",)}, "claims are those against everyone"),
        ((), {"adversaries": ("nobody",)}, "must be among release, server, everyone"),
    ],
)
def test_what_makes_no_sense_is_refused(overrides: tuple[str, ...], settings: dict[str, Any], message: str) -> None:
    asked = {**settings, "fault": fault_named(settings.get("fault", ""))}
    scenario = Scenario.preset("trustless-iris").with_overrides(*FEW, *overrides)
    with pytest.raises(ScenarioError, match=message):
        AuditSettings(**asked).check(scenario)


def test_everyone_is_audited_by_default_where_workers_bring_noise() -> None:
    assert AuditSettings().audited(Scenario.preset("trustless-iris")) == ("release", "server", "everyone")
    on_air = Scenario.preset("trustless-iris").with_overrides("air.preset=line-of-sight")
    assert AuditSettings().audited(on_air) == ("everyone",)
    assert AuditSettings().audited(Scenario.preset("private-iris")) == ("release", "server")


@pytest.mark.long
@pytest.mark.parametrize("preset", ["trustless-iris", "trustless-digits", "trustless-mnist"])
def test_near_the_claim_of_a_preset(preset: str, audited: Audited) -> None:
    audit = audited(preset, "privacy.epsilon=1", adversary="everyone", trials=100_000)
    assert not audit.caught
    assert audit.best.epsilon is not None
    assert 0.8 < audit.best.epsilon < 1.0
