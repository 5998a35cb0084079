"""Audits of the release: below every claim, near the sharpest one, with every kind of schedule."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from airmixml import Scenario, ScenarioError
from airmixml.audit import Audit, sums
from airmixml.audit.sums import moves_of
from airmixml.audit.trials import Bench
from airmixml.radio.draws import AirSetting
from airmixml.radio.schedules import Poisson
from airmixml.radio.tally import placed_distances
from airmixml.randomness.slot_words import slot_words
from airmixml.streams import Streams

Audited = Callable[..., Audit]
EXACT = "privacy.sensitivity=encoder"
TIGHT = (EXACT, "privacy.accountant=pld", "mixing.policy=equalmix", "radio.slots=16", "mixing.power=fixed")
# Epsilon is about 2 for whoever knows no schedule.
SAMPLED = (*TIGHT, "radio.scheduled=500", "mixing.power_scale_watts=5e-11")


def check_below_every_claim(audit: Audit) -> None:
    claims = [claim.epsilon for claim in audit.claims if claim.epsilon is not None]
    assert claims
    assert audit.best.epsilon is not None
    assert audit.best.epsilon <= min(claims)
    assert not audit.caught


@pytest.mark.parametrize(("trials", "reached"), [(20_000, 0.55), pytest.param(200_000, 0.8, marks=pytest.mark.long)])
@pytest.mark.parametrize("schedule", ["fixed", pytest.param("poisson", marks=pytest.mark.long)])
def test_near_the_sharpest_claim(schedule: str, trials: int, reached: float, audited: Audited) -> None:
    audit = audited(
        "paper-iris",
        *SAMPLED,
        f"radio.schedule={schedule}",
        adversary="release",
        adjacency="remove-one",
        trials=trials,
    )
    check_below_every_claim(audit)
    sharpest = audit.sharpest
    assert sharpest is not None
    assert sharpest.accountant == "pld"
    assert sharpest.epsilon is not None
    assert audit.best.epsilon is not None
    assert reached * sharpest.epsilon < audit.best.epsilon


BELOW: list[tuple[str, ...]] = [
    (),
    ("mixing.alpha=1",),
    ("mixing.policy=nonmix", "radio.slots=200"),
    ("mixing.alpha=1", "mixing.assignment=max-min", "radio.slots=200"),
    (*SAMPLED, "radio.schedule=poisson"),
    (*SAMPLED, "radio.max_participations=4"),
    (*TIGHT, "radio.slots=130", "workers.count=100", "radio.scheduled=10", "radio.max_participations=20"),
    (*TIGHT, "radio.slots=1", "radio.scheduled=200", "mixing.power_scale_watts=1e-11"),
    (EXACT, "workers.count=40", "radio.scheduled=40", "mixing.alpha=1", "radio.slots=10"),
    (EXACT, "workers.count=1", "radio.scheduled=1", "radio.slots=1"),
    (*SAMPLED, "workers.encoder=clip", "radio.scheduled=200"),
    ("mixing.power=fixed", "mixing.power_scale_watts=1e-14", "radio.slots=10"),
    ("mixing.power=fixed", "mixing.power_scale_watts=1e-14", "radio.slots=100"),
]
# Kinds of neighbours in turn; the other kind is for the long tests, and so are the settings that take longest.
BELOW_EVERY_CLAIM = [
    pytest.param(
        overrides, adjacency, marks=[pytest.mark.long] if (place + kind) % 2 or place in (4, 9, 11, 12) else []
    )
    for place, overrides in enumerate(BELOW)
    for kind, adjacency in enumerate(("replace-one", "remove-one"))
]


@pytest.mark.parametrize(("overrides", "adjacency"), BELOW_EVERY_CLAIM)
def test_below_every_claim(overrides: tuple[str, ...], adjacency: str, audited: Audited) -> None:
    audit = audited("paper-iris", *overrides, adversary="release", adjacency=adjacency, trials=400)
    check_below_every_claim(audit)
    assert np.isfinite(audit.trials.scores_in).all()
    assert np.isfinite(audit.trials.scores_out).all()


def test_every_block_has_noise_of_its_own(bench_of: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, int]] = []
    real = sums.noise_source
    monkeypatch.setattr(sums, "noise_source", lambda *which: (seen.append(which), real(*which))[1])
    # 150 = 100 + 50 workers of two runs, each in blocks of 128 slots.
    sums.hidden_schedule_trials(bench_of("paper-iris", trials=300), numbers_at_once=1)
    assert len(seen) == len(set(seen)) == 2 * 8


def test_received_power_tells_the_schedule(audited: Audited) -> None:
    audit = audited("paper-iris", "mixing.power=max", adversary="release")
    check_below_every_claim(audit)
    assert audit.notes[0].startswith("received power may tell who was scheduled")
    assert audit.best.epsilon is not None
    assert audit.best.epsilon > 1e6  # no more than counting could ever show, were the scores not normal


def test_nothing_to_reveal_and_nobody_to_audit(audited: Audited) -> None:
    with pytest.raises(ScenarioError, match="nothing is hidden that could be revealed, since everybody sends"):
        audited("private-iris", adversary="release", fault="schedule-revealed")
    silent = (*TIGHT, "radio.schedule=poisson", "radio.slots=1", "radio.scheduled=1")
    seeds = (Scenario.preset("paper-iris").with_overrides(*silent, f"seed={seed}") for seed in range(20))
    fading = torch.ones((1, 1))
    words = ((each, slot_words(Streams(each.seed), "ratios")) for each in seeds)
    nobody = next(each for each, source in words if not Poisson().shares(each, fading, range(1), source, source).any())
    with pytest.raises(ScenarioError, match="nobody tossed heads"):
        audited("paper-iris", *silent, f"seed={nobody.seed}", adversary="server")


def test_everybody_sends(audited: Audited) -> None:
    audit = audited("private-iris", adversary="release")
    assert audit.notes[0].startswith("everybody sends in every slot")
    assert audit.sharpest is not None
    assert audit.sharpest.epsilon == pytest.approx(5.0)
    assert audit.best.epsilon is not None
    assert 4.4 < audit.best.epsilon < 5.0


def moves(*overrides: str, adjacency: str = "replace-one") -> tuple[float, float, float]:
    """Squared moves in the two worlds, and their product."""
    scenario = Scenario.preset("paper-iris").with_overrides(EXACT, *overrides)
    setting = AirSetting.of(scenario, 4, 3, placed_distances(scenario))
    found = moves_of(setting, 3, adjacency)
    one, other = found.with_canary, found.without
    return float(one @ one), float(other @ other), float(one @ other)


def test_moves_by_hand() -> None:
    poisson = ("radio.schedule=poisson", "mixing.policy=equalmix", "privacy.accountant=pld", "mixing.power=fixed")
    # Ones with label 0; zeros with label 1; zeros with label 2.
    assert moves(adjacency="remove-one") == pytest.approx((6, 0, 0))
    assert moves() == pytest.approx((6, 2, 1))  # the third sample moves more than a difference alone, (6, 0, 0)
    assert moves(*poisson, adjacency="remove-one") == pytest.approx((5, 0, 0))
    assert moves(*poisson) == pytest.approx((5, 1, 0))
    # Numbers that are never negative have three samples of equal distance.
    assert moves("workers.encoder=clip") == pytest.approx((4, 4, 2), rel=1e-4)


def test_workers_of_one_schedule_are_not_told_to_be_independent(audited: Audited) -> None:
    """Of a fixed size one that sends leaves fewer seats: counts of k of N workers vary (N - k) / (N - 1) times as much.

    The server's trials are one worker in fresh noise, and every worker's own coin is independent of all others.
    """
    every, count = np.random.default_rng(0), 100
    chosen = np.array([every.permutation(1000)[:500] < count for _ in range(4000)]).sum(axis=1)
    assert chosen.var() / (count * 0.25) == pytest.approx(900 / 999, abs=0.08)
    for overrides, adversary, independent in (
        ((), "release", False),
        (("radio.schedule=poisson",), "release", True),
        ((), "server", True),
    ):
        audit = audited("paper-iris", *SAMPLED, *overrides, adversary=adversary, trials=200)
        assert (audit.to_dict()["bounds"][0]["assumes"] == "independent trials") == independent
        assert "independent trials" in audit.bounds[0].assumes
        assert ("only nearly" in audit.bounds[0].assumes) != independent
