"""What a plan recommends for a learner in closed form: it runs, keeps the target, and learns better than others."""

import json
import math
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from airmixml import Scenario
from airmixml.cli.plan import with_set
from airmixml.data.embedded import DIGITS
from airmixml.edge import learn
from airmixml.planning import learning_noise
from airmixml.planning.design_figures import draw_plan
from airmixml.planning.learning_noise import DesignScorer, SendingPlan
from airmixml.planning.plan import InputMoments, make_plan
from airmixml.planning.recommend import Recommendation, recommend
from airmixml.streams import Streams
from airmixml.workers import load_dataset

SMALL_DIGITS = (
    "workers.train_samples=0",
    "workers.count=1198",
    "workers.holding=dealt",
    "workers.encoder=clip",
    "workers.norm=unit",
    "workers.centre=own",
    "radio.slots=200",
    "radio.scheduled=64",
    "privacy.sensitivity=encoder",
    "privacy.epsilon=10",
    "privacy.delta=1e-5",
    "learner.model=ridge",
)
SERVER = ("privacy.adversary=server", "privacy.accountant=gdp")
RELEASE = ("privacy.adversary=release", "privacy.accountant=paper-loose", "privacy.epsilon=16", "learner.model=lda")


@pytest.fixture(scope="module", autouse=True)
def few_sampled_slots() -> Iterator[None]:
    """Fewer drawn slots estimate the noise of a design well enough to rank designs that are decibels apart."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(learning_noise, "_SAMPLED_SEATS", 1 << 14)
        yield


def digits(*changes: str) -> Scenario:
    return Scenario.preset("digits").with_overrides(*SMALL_DIGITS, *changes)


def recommended(scenario: Scenario, max_air_seconds: float | None = None) -> Recommendation:
    scorer = DesignScorer(scenario, 64, 10, 1.0)
    found = recommend(scorer, max_air_seconds=max_air_seconds)
    assert found is not None
    return found


@pytest.fixture(scope="module")
def against_server() -> Recommendation:
    return recommended(digits(*SERVER))


@pytest.fixture(scope="module")
def against_release() -> Recommendation:
    return recommended(digits(*RELEASE))


def accuracy(scenario: Scenario) -> float:
    dataset = load_dataset(scenario.workers, Streams(scenario.seed))
    return learn(scenario, dataset=dataset).trained.history.test_accuracy[-1]


@pytest.mark.parametrize("adversary", ["server", "release"])
def test_the_overrides_run_keep_the_target_and_beat_a_bad_design(
    adversary: str, against_server: Recommendation, against_release: Recommendation
) -> None:
    scenario, found = {
        "server": (digits(*SERVER), against_server),
        "release": (digits(*RELEASE), against_release),
    }[adversary]
    changed = scenario.with_overrides(*found.overrides)
    assert SendingPlan.of(changed) == found.best.sending
    assert changed.mixing.power == "dp"  # the preset says "max"
    dataset = load_dataset(changed.workers, Streams(0))
    learned = learn(changed, dataset=dataset)
    transmission, trained = learned.transmission, learned.trained
    assert transmission.report.privacy.epsilon <= scenario.privacy.epsilon
    assert transmission.report.air_seconds == pytest.approx(found.best.air_seconds, rel=1e-9, abs=0)
    bad = scenario.with_overrides("mixing.power=dp", "mixing.alpha=1", "workers.label_weight=0.1")
    assert trained.history.test_accuracy[-1] > accuracy(bad) + 0.3
    assert found.gain_db > 3.0


def test_the_weight_that_is_recommended_is_among_the_best(against_server: Recommendation) -> None:
    scenario, found = digits(*SERVER), against_server
    changed = scenario.with_overrides(*found.overrides)
    others = [accuracy(changed.with_overrides(f"workers.label_weight={weight}")) for weight in (0.1, 0.3, 1.0)]
    assert accuracy(changed) > max(others) - 0.015
    assert accuracy(changed) > others[0] + 0.2


def test_what_is_recommended_is_not_bettered_by_recommending_again(against_server: Recommendation) -> None:
    again = recommended(digits(*SERVER, *against_server.overrides))
    assert again.overrides == ()
    assert again.gain_db == 0.0


def test_time_on_the_air_is_kept(against_release: Recommendation) -> None:
    scenario = digits(*RELEASE)
    free, short = against_release, recommended(scenario, max_air_seconds=2e-3)
    assert free.best.air_seconds <= free.max_air_seconds == 3600.0
    assert short.best.air_seconds <= 2e-3
    # Moments take 3.4 ms: not even one slot fits, so samples are sent.
    assert free.best.sending.sends == "moments"
    assert short.best.sending.sends == "samples"
    assert short.best.learning_noise_db > free.best.learning_noise_db
    scorer = DesignScorer(scenario, 64, 10, 1.0)
    assert recommend(scorer, max_air_seconds=1e-9) is None


@pytest.mark.long
def test_an_encoder_without_a_bound_leaves_moments_out_and_says_so() -> None:
    scenario = Scenario.preset("digits").with_overrides("learner.model=ridge", "radio.slots=500")
    scorer = DesignScorer(scenario, 64, 10, 64 * DIGITS.scaled_deviation**2)
    found = recommend(scorer)
    assert found is not None
    assert found.best.sending.sends == "samples"
    assert found.note.startswith('moments were not considered: workers.sends = "moments": needs an encoder')
    assert scenario.with_overrides(*found.overrides).mixing.power == "dp"


def test_plans_of_networks_recommend_nothing() -> None:
    moments = InputMoments(mean=DIGITS.scaled_mean, deviation=DIGITS.scaled_deviation)
    plan = make_plan(Scenario.preset("digits").with_overrides("radio.slots=100"), 64, 10, moments)
    assert plan.recommended is None
    assert "recommended" not in plan.to_dict()
    assert plan.best


@pytest.mark.long
def test_a_plan_holds_it_as_plain_values_and_draws_it(tmp_path: Path) -> None:
    scenario = digits(*SERVER, "workers.sends=moments")
    plan = make_plan(scenario, 64, 10, InputMoments(mean=0.4, deviation=0.27))
    table = json.loads(json.dumps(plan.to_dict(), allow_nan=False))["recommended"]
    assert table["sends"] == "moments"
    assert "radio.scheduled=1198" in table["overrides"]
    assert shlex.split(shlex.join(table["overrides"])) == table["overrides"]
    assert table["own"]["slots"] == 200
    assert math.isfinite(table["learning_noise_db"])
    draw_plan(plan, scenario, tmp_path / "plan.svg")
    drawn = (tmp_path / "plan.svg").read_text(encoding="utf-8")
    assert drawn.startswith("<?xml")


@pytest.mark.parametrize("name", ["private-iris", pytest.param("private-mnist", marks=pytest.mark.long)])
def test_presets_are_planned(name: str) -> None:
    scenario = Scenario.preset(name)
    dims = (5, 3) if name == "private-iris" else (1000, 10)
    plan = make_plan(scenario, *dims, InputMoments(mean=0.4, deviation=0.27))
    assert plan.energy_joules > 0.0
    assert plan.recommended is not None
    best = plan.recommended.best.sending
    assert (best.sends, best.scheduled, best.slots) == ("moments", scenario.workers.count, 1)
    assert 0.4 <= best.label_weight <= 1.0
    scenario.with_overrides(*plan.recommended.overrides)


def test_a_command_sets_each_key_once() -> None:
    command = ["airmix", "run", "a.toml", "--set", "radio.scheduled=20", "--set", "seed=1"]
    assert with_set(command, ["learner.model=ridge", "radio.scheduled=2000"]) == [
        *["airmix", "run", "a.toml", "--set", "seed=1"],
        *["--set", "learner.model=ridge", "--set", "radio.scheduled=2000"],
    ]
    assert with_set(command, []) == command
