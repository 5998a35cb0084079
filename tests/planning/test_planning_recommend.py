"""What a plan recommends for a learner in closed form: it runs, keeps the target, and learns better than others."""

import json
import shlex
from pathlib import Path

import pytest

from airmixml import Scenario
from airmixml.cli.plan import with_set
from airmixml.data.embedded import DIGITS
from airmixml.edge import learn
from airmixml.planning import InputMoments, draw_plan, make_plan
from airmixml.planning.planned import sent_at_once
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
MOMENTS = InputMoments(mean=DIGITS.scaled_mean, deviation=DIGITS.scaled_deviation)


def digits(*changes: str) -> Scenario:
    return Scenario.preset("digits").with_overrides(*SMALL_DIGITS, *changes)


def learned(scenario: Scenario) -> tuple[float, float]:
    """Return the accuracy and the epsilon of a run."""
    found = learn(scenario, dataset=load_dataset(scenario.workers, Streams(scenario.seed)))
    return found.trained.history.test_accuracy[-1], found.transmission.report.privacy.epsilon


@pytest.mark.parametrize("adversary", [SERVER, RELEASE], ids=["server", "release"])
def test_the_overrides_run_keep_the_target_and_beat_other_ways_to_send(adversary: tuple[str, ...]) -> None:
    scenario = digits(*adversary)
    plan = make_plan(scenario, 64, 10, MOMENTS)
    assert plan.recommended is not None
    changed = scenario.with_overrides(*plan.recommended.overrides)
    assert changed == sent_at_once(scenario)
    accuracy, epsilon = learned(changed)
    assert epsilon <= scenario.privacy.epsilon
    for changes in (("mixing.alpha=1",), ("workers.sends=samples", "radio.scheduled=64", "radio.slots=200")):
        assert accuracy > learned(scenario.with_overrides("mixing.power=dp", *changes))[0] + 0.05
    again = make_plan(changed, 64, 10, MOMENTS)
    assert again.recommended is not None
    assert again.recommended.overrides == ()
    assert again.of_recommended is None
    short = make_plan(scenario, 64, 10, MOMENTS, max_air_seconds=1e-6)
    assert short.recommended is None
    assert "longer on the air" in short.note


def test_where_workers_cannot_send_moments_the_plan_says_why() -> None:
    scenario = Scenario.preset("digits").with_overrides("learner.model=ridge", "radio.slots=500")
    plan = make_plan(scenario, 64, 10, MOMENTS)
    assert plan.recommended is None
    assert 'in one slot: workers.sends = "moments": needs an encoder' in plan.note


def test_plans_of_networks_recommend_nothing() -> None:
    plan = make_plan(Scenario.preset("digits").with_overrides("radio.slots=100"), 64, 10, MOMENTS)
    assert plan.recommended is None
    assert not {"recommended", "note"} & plan.to_dict().keys()


def test_a_plan_holds_it_as_plain_values_and_draws_it(tmp_path: Path) -> None:
    scenario = Scenario.preset("private-iris").with_overrides("radio.scheduled=20")
    plan = make_plan(scenario, 5, 3, InputMoments(mean=0.4, deviation=0.27), held_dim=4)
    table = json.loads(json.dumps(plan.to_dict(), allow_nan=False))["recommended"]
    assert "radio.scheduled=2000" in table["overrides"]
    assert not table["own_is_tried"]  # what was tried is sent by all workers
    assert shlex.split(shlex.join(table["overrides"])) == table["overrides"]
    draw_plan(plan, scenario, tmp_path / "plan.svg")
    assert (tmp_path / "plan.svg").read_text(encoding="utf-8").startswith("<?xml")


@pytest.mark.long
def test_a_preset_of_images_is_planned() -> None:
    scenario = Scenario.preset("private-mnist")
    plan = make_plan(scenario, 1000, 10, InputMoments(mean=0.4, deviation=0.27))
    assert plan.recommended is not None
    scenario.with_overrides(*plan.recommended.overrides)


def test_a_command_sets_each_key_once() -> None:
    command = ["airmix", "run", "a.toml", "--set", "radio.scheduled=20", "--set", "seed=1"]
    assert with_set(command, ["learner.model=ridge", "radio.scheduled=2000"]) == [
        *["airmix", "run", "a.toml", "--set", "seed=1"],
        *["--set", "learner.model=ridge", "--set", "radio.scheduled=2000"],
    ]
    assert with_set(command, []) == command
