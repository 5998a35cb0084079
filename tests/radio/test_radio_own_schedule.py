"""A schedule of one's own: who sends, what is stated of it, and what is refused."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import airmixml
from airmixml import AirMixClassifier, Scenario, ScenarioError, simulate
from airmixml.messages import AirMixError, PluginError
from airmixml.privacy import PrivacyStatement, state_privacy
from airmixml.privacy.gaussian import gaussian_mu
from airmixml.radio.schedules import Schedule
from airmixml.radio.system import adversary_named, planned_design, sensitivity_of
from airmixml.randomness.slot_words import slot_words
from airmixml.scenario import Radio
from airmixml.streams import Streams

# 600 slots of 20 among 400 workers: 30 slots each.
BASE = Scenario.preset("private-iris").with_overrides(
    "workers.count=400", "radio.slots=600", "radio.scheduled=20", "workers.sends=samples", "mixing.power=fixed"
)


class InTurn(Schedule):
    """All workers one after the other."""

    about = "workers in turn"

    def __init__(self, says: Any = None) -> None:
        self.says = says

    def pick(self, slots: Any, scheduled: int, workers: int, chances: Callable[[int], Any]) -> Any:
        return (slots[:, None] * scheduled + np.arange(scheduled)) % workers

    def most_participations(self, slots: int, scheduled: int, workers: int) -> int:
        return -(-slots * scheduled // workers) if self.says is None else self.says


class Halves(InTurn):
    """Random workers of the even numbers, then of the odd ones."""

    def pick(self, slots: Any, scheduled: int, workers: int, chances: Callable[[int], Any]) -> Any:
        order = chances(workers // 2).argsort(axis=1)[:, :scheduled]
        return 2 * order + slots[:, None] % 2

    def most_participations(self, slots: int, scheduled: int, workers: int) -> int:
        return -(-slots // 2)


def stated(scenario: Scenario, adversary: str, accountant: str) -> PrivacyStatement:
    """State what holds before anything is drawn, at a received power that is the same for all."""
    design = planned_design(scenario, sensitivity_of(scenario, 4, 3), received_watts=2e-17)
    whom, privacy = adversary_named(adversary, scenario), scenario.privacy
    return state_privacy(design, whom, accountant, adjacency=privacy.adjacency, delta=privacy.delta)


def on(schedule: Any, base: Scenario = BASE, **privacy: Any) -> Scenario:
    return replace(base, radio=replace(base.radio, schedule=schedule), privacy=replace(base.privacy, **privacy))


def drawn(scenario: Scenario, slots: range) -> Any:
    return scenario.radio.schedule_kind.draw(scenario, slots, slot_words(Streams(scenario.seed), "schedule")).numpy()


def test_workers_send_when_the_object_says() -> None:
    sent = simulate(on(InTurn()))
    assert sent.examples.draws.scheduled_workers[3].tolist() == list(range(60, 80))
    assert sent.report.ledger.participations.tolist() == [30] * 400


def test_chances_do_not_depend_on_the_block() -> None:
    scenario = on(Halves())
    whole = drawn(scenario, range(64))
    parts = [drawn(scenario, range(first, first + 16)) for first in range(0, 64, 16)]
    np.testing.assert_array_equal(whole, np.concatenate(parts))
    assert (whole % 2 == np.arange(64)[:, None] % 2).all()
    assert len(np.unique(whole[::2])) > 180  # of 200: chance decides


def epsilons(scenario: Scenario, accountant: str) -> dict[str, float]:
    return {name: stated(scenario, name, accountant).epsilon for name in ("server", "release")}


def test_the_server_has_as_many_slots_as_a_worker_may_send_in() -> None:
    """Of an ordinary schedule whose limit is the same 30 slots, the server knows exactly as much."""
    limited = replace(BASE, radio=replace(BASE.radio, max_participations=30))
    ours = epsilons(on(InTurn()), "gdp")
    assert ours["server"] == pytest.approx(epsilons(limited, "gdp")["server"], rel=1e-12)
    assert stated(on(InTurn()), "server", "gdp").schedule_failure == 0.0
    often, delta = epsilons(on(InTurn(120)), "gdp"), BASE.privacy.delta
    assert gaussian_mu(often["server"], delta) == pytest.approx(2.0 * gaussian_mu(ours["server"], delta), rel=1e-6)


def test_no_credit_is_given_for_a_schedule_that_may_be_guessed() -> None:
    """An adversary without the schedule learns what the server does, which is more than of a random schedule."""
    ours, random = epsilons(on(InTurn()), "pld"), epsilons(on("fixed"), "pld")
    assert ours["release"] == pytest.approx(ours["server"], rel=1e-9)
    assert random["release"] < 0.5 * ours["release"]
    why = stated(on(InTurn()), "release", "gdp").why
    assert "nothing is assumed of how the schedule is drawn" in why


@pytest.mark.parametrize("adversary", ["server", "release"])
def test_power_keeps_the_target(adversary: str) -> None:
    asked = on(InTurn(), BASE.with_overrides("mixing.power=dp"), adversary=adversary, accountant="gdp", epsilon=2.0)
    report = simulate(asked).report
    assert report.privacy.epsilon == pytest.approx(2.0, rel=1e-3)
    assert report.privacy_against_server.epsilon == pytest.approx(2.0, rel=1e-3)
    shorter = on(InTurn(60), asked)  # might be twice as often: half the power
    assert simulate(shorter).report.energy_joules == pytest.approx(0.5 * report.energy_joules, rel=1e-6)


def test_a_schedule_that_breaks_its_word_is_refused() -> None:
    class Always(InTurn):
        def pick(self, slots: Any, scheduled: int, workers: int, chances: Callable[[int], Any]) -> Any:
            return np.tile(np.arange(scheduled), (len(slots), 1))

    with pytest.raises(PluginError, match=r"a worker sends in 600 slots, and its most_participations says 30"):
        simulate(on(Always()))
    assert simulate(on(Always(600))).report.privacy.epsilon > 0.0


class Silent(InTurn):
    most_participations = Schedule.most_participations


def test_a_schedule_without_a_pick_is_refused() -> None:
    class Unfinished(InTurn):
        pick = Schedule.pick

    with pytest.raises(PluginError, match=r"^radio\.schedule = Unfinished: its pick must return"):
        simulate(on(Unfinished()))


@pytest.mark.parametrize("schedule", [Silent(), InTurn(29), InTurn(0), InTurn("many"), InTurn(30.0)])
def test_without_a_limit_no_epsilon_follows(schedule: Any) -> None:
    with pytest.raises(PluginError, match=r"^radio\.schedule = .*its most_participations must return .*at least 30"):
        on(schedule)


@pytest.mark.parametrize(
    "picks",
    [None, np.zeros((2, 3), dtype=int), np.nan, "all", 0.5, -1, 400, [[1, 2], [3]]],
)
def test_what_are_no_workers_is_refused_in_one_line(picks: Any) -> None:
    class Wrong(InTurn):
        def pick(self, slots: Any, scheduled: int, workers: int, chances: Callable[[int], Any]) -> Any:
            right = super().pick(slots, scheduled, workers, chances)
            return right + picks if isinstance(picks, float | int) else picks

    with pytest.raises(PluginError, match=r"^radio\.schedule = Wrong: its pick must return slots x scheduled") as told:
        simulate(on(Wrong()))
    assert "\n" not in str(told.value)


def test_a_worker_sends_once_in_a_slot() -> None:
    class Twice(InTurn):
        def pick(self, slots: Any, scheduled: int, workers: int, chances: Callable[[int], Any]) -> Any:
            return np.zeros((len(slots), scheduled), dtype=int)

    with pytest.raises(PluginError, match="all different in a slot"):
        simulate(on(Twice(600)))


def test_what_rests_on_a_random_schedule_refuses_it() -> None:
    with pytest.raises(ScenarioError, match=r"^radio\.max_participations = 40: must be 0 for radio\.schedule = "):
        on(InTurn(), replace(BASE, radio=replace(BASE.radio, max_participations=40)))
    with pytest.raises(ScenarioError, match=r'^radio\.schedule = .*must be "fixed" for privacy\.noise'):
        on(InTurn(), Scenario.preset("trustless-iris"))
    with pytest.raises(ScenarioError, match=r'^radio\.schedule = .*must be "fixed" for learner\.rounds above 0'):
        on(InTurn(), Scenario.preset("private-mnist-rounds"))


def test_a_wrong_type_is_told() -> None:
    for wrong in (3, None, object()):
        with pytest.raises(ScenarioError, match=r"^radio\.schedule = .*must be one of .*or an object of your own"):
            Radio(schedule=wrong)

    class Thing:
        about = "no schedule"

    with pytest.raises(AirMixError, match=r"^radio\.schedule = .*has no sampling, by_coin, .*docs/extending\.md"):
        Radio(schedule=Thing())


@pytest.mark.long
def test_run_sweep_and_estimator_take_it(tmp_path: Any) -> None:
    result = airmixml.run(on(InTurn()), out=tmp_path / "run", pictures=False)
    assert result.ledger.worst_worker_slots == 30
    table = airmixml.sweep(BASE, {"radio.schedule": ["fixed", InTurn()]}, out=tmp_path / "sweep", seeds=1, jobs=1)
    assert table["radio.schedule"][1].startswith("object:InTurn-")
    model = AirMixClassifier(schedule=InTurn(), slots=10, scheduled=5, centre="own")
    assert model._scenario(30, 5).radio.schedule.startswith("object:InTurn-")
