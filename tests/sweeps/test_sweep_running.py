"""Sweeps in one process and in several, killed, resumed, and with members that fail."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
import torch

from airmixml import RunFolderError, Scenario, ScenarioError, simulate, train
from airmixml.radio.draws import AirSetting, draw_slots
from airmixml.radio.tally import placed_distances, rehearse
from airmixml.sweeps import Energies, SweepResult, Trainings, cut_into_batches, run_sweep
from airmixml.sweeps.batches import Batch, Place

SMALL = ("radio.slots=200", "learner.epochs=3")
BASE = Scenario.preset("paper-iris").with_overrides(*SMALL)
REFUSED = BASE.with_overrides("privacy.epsilon=3", "mixing.alpha=10")  # ln(1 / delta) = 4.6 is the least of paper-loose


def scenarios_of(seeds: int) -> list[Scenario]:
    """Three scenarios of each seed: two that share their draws, one that does not."""
    return [
        BASE.with_overrides(f"seed={seed}", change)
        for seed in range(seeds)
        for change in ("mixing.power=dp", "mixing.power=max", "mixing.alpha=1")
    ]


def batches_of(seeds: int) -> list[Batch]:
    """Energies and trainings; a batch of each for every seed."""
    scenarios = scenarios_of(seeds)
    return [*cut_into_batches(scenarios, Trainings()), *cut_into_batches(scenarios, Energies())]


@pytest.fixture(scope="module")
def two_seeds(tmp_path_factory: pytest.TempPathFactory) -> SweepResult:
    """The outcomes of two seeds, batch after batch in this process."""
    return run_sweep(batches_of(2), tmp_path_factory.mktemp("alone"))


class Told:
    """Remembers what was reported."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int, int]] = []

    def __call__(self, stage: str, done: int, total: int) -> None:
        self.calls.append((stage, done, total))

    def assert_from_nothing_to_all(self) -> None:
        assert {stage for stage, _, _ in self.calls} == {"sweep"}
        assert {total for _, _, total in self.calls} == {1000}
        done = [done for _, done, _ in self.calls]
        assert done == sorted(done)
        assert done[0] >= 0
        assert done[-1] == 1000


def state_of(folder: Path) -> dict[str, tuple[int, int]]:
    return {path.name: (path.stat().st_ino, path.stat().st_mtime_ns) for path in folder.glob("*.json")}


def energy(outcome: Any) -> float:
    return float(outcome["energy_joules"])


def never(*_arguments: Any) -> NoReturn:
    raise AssertionError("a finished batch was run again")


@pytest.mark.long
def test_two_processes_give_what_one_gives_and_nothing_is_run_twice(
    two_seeds: SweepResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = Told()
    both = run_sweep(batches_of(2), tmp_path, jobs=2, progress=told)
    assert both == two_seeds
    assert both.kept_batches == 0
    assert set(both.outcomes) == {(kind, scenario) for kind in ("training", "energy") for scenario in scenarios_of(2)}
    told.assert_from_nothing_to_all()
    assert len({done for _, done, _ in told.calls}) > 4
    assert multiprocessing.active_children() == []

    files = state_of(tmp_path)
    assert len(files) == 4
    for kind in (Trainings, Energies):
        monkeypatch.setattr(kind, "run", never)
    for jobs in (1, 2):
        again = run_sweep(batches_of(2), tmp_path, jobs=jobs)
        assert again.outcomes == two_seeds.outcomes
        assert again.kept_batches == 4
    assert state_of(tmp_path) == files


def test_a_training_gives_what_the_scenario_gives_by_itself(two_seeds: SweepResult) -> None:
    for scenario in scenarios_of(2):
        outcome = two_seeds.outcome("training", scenario)
        mixtures = simulate(scenario)
        report, history = mixtures.report, train(mixtures).history
        assert outcome["curve"] == pytest.approx(history.test_accuracy, abs=1.01 / 50)
        assert outcome["energy_joules"] == pytest.approx(report.energy_joules, rel=1e-12, abs=0)


def test_energies_are_those_of_the_draws(two_seeds: SweepResult) -> None:
    """As rehearsed, and as tau beta q^2 / |h|^2 added up over all slots and workers."""
    for scenario in scenarios_of(2):
        outcome = two_seeds.outcome("energy", scenario)
        tally = rehearse(scenario, 4, 3)
        assert outcome == {"energy_joules": tally.energy_joules}
        trained = two_seeds.outcome("training", scenario)
        assert outcome["energy_joules"] == pytest.approx(trained["energy_joules"], rel=1e-12, abs=0)
        setting = AirSetting.of(scenario, 4, 3, placed_distances(scenario))
        draws = draw_slots(setting, range(200)).numpy()
        spent = 1e-3 * draws.power_scale_watts[:, None] * draws.ratios**2 / draws.magnitude**2
        assert outcome["energy_joules"] == pytest.approx(np.sum(spent), rel=1e-9, abs=0)


def test_progress_of_one_process_goes_from_nothing_to_all(tmp_path: Path) -> None:
    told = Told()
    run_sweep(cut_into_batches(scenarios_of(2), Energies()), tmp_path, progress=told)
    told.assert_from_nothing_to_all()
    told = Told()
    run_sweep(cut_into_batches(scenarios_of(3), Energies()), tmp_path, progress=told)  # two thirds are there
    told.assert_from_nothing_to_all()
    assert told.calls[0] == ("sweep", 666, 1000)


def test_progress_says_so_when_all_is_there(tmp_path: Path) -> None:
    batches = cut_into_batches(scenarios_of(1), Energies())
    run_sweep(batches, tmp_path)
    told = Told()
    run_sweep(batches, tmp_path, progress=told)
    told.assert_from_nothing_to_all()


def test_only_what_is_missing_or_damaged_is_run(two_seeds: SweepResult, tmp_path: Path) -> None:
    batches = cut_into_batches(scenarios_of(2), Energies())
    run_sweep(batches[:1], tmp_path)
    (first,) = state_of(tmp_path)
    second = run_sweep(batches, tmp_path)
    assert second.kept_batches == 1
    kept = state_of(tmp_path)
    (tmp_path / first).write_bytes((tmp_path / first).read_bytes()[:50])
    third = run_sweep(batches, tmp_path)
    assert third.kept_batches == 1
    changed = {name for name, state in state_of(tmp_path).items() if kept[name] != state}
    assert changed == {first}
    for result in (second, third):
        assert result.outcomes == {key: value for key, value in two_seeds.outcomes.items() if key[0] == "energy"}


@pytest.mark.parametrize("kind", [Trainings(), Energies()], ids=["training", "energy"])
def test_a_scenario_that_cannot_be_run_costs_no_other(kind: Any, two_seeds: SweepResult, tmp_path: Path) -> None:
    """It is refused alone, in one line; that is its outcome, and it is not tried again."""
    good = scenarios_of(1)
    batches = cut_into_batches([good[0], REFUSED, *good[1:]], kind)
    assert len(batches) == 1
    files: dict[str, tuple[int, int]] = {}
    for kept in (0, 1):
        result = run_sweep(batches, tmp_path)
        assert result.kept_batches == kept
        refused = result.outcome(kind.name, REFUSED)
        assert "error" in refused
        assert refused["error"].startswith("privacy.epsilon = 3: paper-loose certifies only epsilon above")
        assert "\n" not in refused["error"]
        for scenario in good:
            assert energy(result.outcome(kind.name, scenario)) == energy(two_seeds.outcome(kind.name, scenario))
        files = files or state_of(tmp_path)
        assert state_of(tmp_path) == files
    assert len(files) == 1
    assert run_sweep(cut_into_batches(good, kind), tmp_path).outcome(kind.name, good[0]) == two_seeds.outcome(
        kind.name, good[0]
    )


@pytest.mark.parametrize("kind", [Trainings(), Energies()], ids=["training", "energy"])
def test_a_scenario_that_cannot_be_run_costs_none_that_shares_its_draws(
    kind: Any, two_seeds: SweepResult, tmp_path: Path
) -> None:
    good = scenarios_of(1)
    refused = good[0].with_overrides("privacy.epsilon=3")
    result = run_sweep(cut_into_batches([good[0], refused, *good[1:]], kind), tmp_path)
    failed = result.outcome(kind.name, refused)
    assert "error" in failed
    assert "privacy.epsilon = 3" in failed["error"]
    for scenario in good:
        assert energy(result.outcome(kind.name, scenario)) == energy(two_seeds.outcome(kind.name, scenario))


def test_a_network_that_goes_astray_costs_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the noise of one scenario had been beyond what float32 can hold."""
    from airmixml.radio import transmission as module

    good = scenarios_of(1)
    expected = run_sweep(cut_into_batches(good, Trainings()), tmp_path / "whole")
    true_family = module.simulate_family

    def drowned(scenarios: Sequence[Scenario], **options: Any) -> list[module.Mixtures]:
        family = true_family(scenarios, **options)
        for mixtures in family:
            if mixtures.scenario.mixing.power == "max":
                mixtures.labels[7] = torch.inf
        return family

    monkeypatch.setattr(module, "simulate_family", drowned)
    result = run_sweep(cut_into_batches(good, Trainings()), tmp_path / "drowned")
    astray = [scenario for scenario in good if scenario.mixing.power == "max"]
    failed = {scenario: outcome for (_, scenario), outcome in result.outcomes.items() if "error" in outcome}
    assert list(failed) == astray
    assert "the loss stopped being a number" in failed[astray[0]]["error"]
    for scenario in good:
        if scenario not in astray:
            assert result.outcome("training", scenario) == expected.outcome("training", scenario)


def test_a_batch_that_breaks_costs_no_other_and_is_tried_again(
    two_seeds: SweepResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Energies.run

    def sometimes(kind: Energies, batch: Batch, place: Place) -> Any:
        if batch[0].seed == 0:
            raise MemoryError("no\nroom")
        return run(kind, batch, place)

    batches, told = cut_into_batches(scenarios_of(2), Energies()), Told()
    with monkeypatch.context() as patch:
        patch.setattr(Energies, "run", sometimes)
        result = run_sweep(batches, tmp_path, progress=told)
    told.assert_from_nothing_to_all()
    for scenario in scenarios_of(2):
        failed = scenario.seed == 0
        outcome = result.outcome("energy", scenario)
        assert outcome == ({"error": "MemoryError: no room"} if failed else two_seeds.outcome("energy", scenario))
    assert len(state_of(tmp_path)) == 1
    again = run_sweep(batches, tmp_path)
    assert again.kept_batches == 1
    assert all(again.outcome("energy", each) == two_seeds.outcome("energy", each) for each in scenarios_of(2))


@pytest.mark.parametrize("why", [OSError("disk"), ScenarioError("no MNIST here")], ids=["other", "own"])
def test_a_training_that_breaks_goes_on_from_its_checkpoint(
    two_seeds: SweepResult, tmp_path: Path, why: Exception
) -> None:
    """Whatever stops a batch as a whole, its beginning stays for the next time, and only until then."""

    def breaks(_stage: str, done: int, _total: int) -> None:
        if done == 666:  # two of three epochs
            raise why

    batches = cut_into_batches(scenarios_of(1), Trainings())
    partial_folder = tmp_path / f"{batches[0][0].digest}.partial"
    result = run_sweep(batches, tmp_path, progress=breaks, checkpoint_seconds=0.0)
    assert all("error" in result.outcome("training", each) for each in scenarios_of(1))
    assert state_of(tmp_path) == {}
    assert list(partial_folder.iterdir())
    told = Told()
    again = run_sweep(batches, tmp_path, progress=told)
    assert [done for _, done, _ in told.calls] == [0, 666, 1000, 1000]
    assert all(again.outcome("training", each) == two_seeds.outcome("training", each) for each in scenarios_of(1))
    assert not partial_folder.exists()


@pytest.mark.long
def test_a_process_that_dies_costs_its_own_batch(tmp_path: Path) -> None:
    """One of two is killed as soon as there is something to kill; a third batch gets a new process."""
    batches = [
        batch
        for seed in range(3)
        for batch in cut_into_batches(
            [BASE.with_overrides(f"seed={seed}", f"mixing.alpha={alpha}", "radio.slots=10000") for alpha in (1, 2, 3)],
            Energies(),
        )
    ]
    killed: list[int] = []

    def kill(_stage: str, _done: int, _total: int) -> None:
        children = multiprocessing.active_children()
        if children and not killed:
            killed.append(children[0].pid or 0)
            os.kill(killed[0], signal.SIGKILL)

    result = run_sweep(batches, tmp_path, jobs=2, progress=kill)
    assert len(killed) == 1
    lost = {scenario.seed for (_, scenario), outcome in result.outcomes.items() if "error" in outcome}
    assert len(lost) == 1
    for (_, scenario), outcome in result.outcomes.items():
        if scenario.seed in lost:
            assert outcome == {"error": "its process ended by SIGKILL (out of memory?)"}
    assert len(state_of(tmp_path)) == 2
    assert multiprocessing.active_children() == []
    again = run_sweep(batches, tmp_path)
    assert again.kept_batches == 2
    assert again.outcomes == run_sweep(batches, tmp_path / "whole").outcomes


def test_a_second_sweep_of_the_folder_is_refused_while_the_first_runs(two_seeds: SweepResult, tmp_path: Path) -> None:
    batches = cut_into_batches(scenarios_of(2), Energies())
    refusals: list[str] = []

    def meanwhile(_stage: str, done: int, _total: int) -> None:
        if done and not refusals:
            before = state_of(tmp_path)
            with pytest.raises(RunFolderError) as refusal:
                run_sweep(batches, tmp_path)
            refusals.append(str(refusal.value))
            assert state_of(tmp_path) == before

    result = run_sweep(batches, tmp_path, progress=meanwhile)
    assert refusals == [f"{tmp_path}: another process is writing it; wait for it or choose another --out"]
    assert result.outcome("energy", BASE) == two_seeds.outcome("energy", BASE)
    assert run_sweep(batches, tmp_path).kept_batches == 2


def test_an_interrupted_training_goes_on_from_its_checkpoint(two_seeds: SweepResult, tmp_path: Path) -> None:
    batches = cut_into_batches(scenarios_of(1), Trainings())
    shares: list[int] = []

    def stop(_stage: str, done: int, _total: int) -> None:
        shares.append(done)
        if done == 666:  # two of three epochs
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_sweep(batches, tmp_path, progress=stop, checkpoint_seconds=0.0)
    assert shares == [0, 0, 333, 666]
    told = Told()
    result = run_sweep(batches, tmp_path, progress=told)
    assert [done for _, done, _ in told.calls] == [0, 666, 1000, 1000]
    for scenario in scenarios_of(1):
        assert result.outcome("training", scenario) == two_seeds.outcome("training", scenario)
    assert {path.name for path in tmp_path.iterdir()} == {".lock", f"{batches[0][0].digest}.json"}


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
def test_a_device_that_is_not_there_is_refused_before_anything_is_run(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="this machine has no CUDA device"):
        run_sweep(cut_into_batches(scenarios_of(1), Trainings(), device="cuda"), tmp_path, jobs=2)
    assert state_of(tmp_path) == {}


# Two processes, halted when the first batch is on the disk.
SWEEP = """
import signal, sys
from pathlib import Path
from airmixml import Scenario
from airmixml.sweeps import Trainings, cut_into_batches, run_sweep
def halt(_stage, _done, _total):
    if list(folder.glob("*.json")):
        print("halted", flush=True)
        signal.pause()
if __name__ == "__main__":
    folder = Path(sys.argv[1])
    base = Scenario.preset("paper-iris").with_overrides(*sys.argv[2:])
    batches = cut_into_batches([base.with_seed(seed) for seed in range(5)], Trainings())
    run_sweep(batches, folder, jobs=2, progress=halt)
"""


def children_of(process: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def wait_until_gone(processes: list[int]) -> None:
    """Wait until they run no more; one that nobody has buried yet does not. The test's own limit ends it."""
    while any(lives(process) for process in processes):
        time.sleep(0.01)


def lives(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.long  # tests/runs kills a process in the middle of a run
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks for processes in /proc")
def test_kill_9_half_way(tmp_path: Path) -> None:
    changes = ("radio.slots=200", "learner.epochs=4")
    folder = tmp_path / "swept"
    sweep = subprocess.Popen([sys.executable, "-c", SWEEP, str(folder), *changes], stdout=subprocess.PIPE, text=True)
    try:
        assert sweep.stdout is not None
        assert sweep.stdout.readline() == "halted\n"
        children = children_of(sweep.pid)
    finally:
        sweep.kill()
        sweep.communicate()
    assert sweep.returncode == -signal.SIGKILL
    assert len(children) >= 2
    wait_until_gone(children)

    finished = state_of(folder)
    assert len(finished) == 1
    base = Scenario.preset("paper-iris").with_overrides(*changes)
    batches = cut_into_batches([base.with_seed(seed) for seed in range(5)], Trainings())
    resumed = run_sweep(batches, folder)
    assert resumed.kept_batches == 1
    assert finished.items() <= state_of(folder).items()
    assert len(state_of(folder)) == 5
    assert resumed.outcomes == run_sweep(batches, tmp_path / "whole").outcomes
    assert not list(folder.glob("*.partial"))


@pytest.mark.long
def test_an_interrupted_sweep_leaves_no_process_behind(two_seeds: SweepResult, tmp_path: Path) -> None:
    def stop(_stage: str, _done: int, _total: int) -> None:
        if len(multiprocessing.active_children()) == 2:
            raise KeyboardInterrupt

    batches = cut_into_batches(scenarios_of(2), Energies())
    with pytest.raises(KeyboardInterrupt):
        run_sweep(batches, tmp_path, jobs=2, progress=stop)
    assert multiprocessing.active_children() == []
    result = run_sweep(batches, tmp_path)
    assert all(result.outcome("energy", each) == two_seeds.outcome("energy", each) for each in scenarios_of(2))
