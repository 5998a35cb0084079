"""Sweeps on Ray: a local one, and a cluster of two nodes on the loopback interface."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airmixml import AirMixError, Scenario
from airmixml.scenario.grid import Grid
from airmixml.sweeps import Energies, SweepResult, Trainings, cut_into_batches, run_sweep
from airmixml.sweeps.batches import Batch, Place
from airmixml.sweeps.grid_sweep import sweep_grid

ray = pytest.importorskip("ray")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")

BASE = Scenario.preset("paper-iris").with_overrides("radio.slots=200", "learner.epochs=3")
REFUSED = BASE.with_overrides("seed=1", "privacy.epsilon=3", "mixing.alpha=10")


def energies(*extra: Scenario, kind: Energies = Energies()) -> list[Batch]:  # noqa: B008
    """Two batches, one of each seed, with two scenarios each."""
    scenarios = [BASE.with_overrides(f"seed={seed}", f"mixing.alpha={alpha}") for seed in (0, 1) for alpha in (1, 2)]
    return cut_into_batches([*scenarios, *extra], kind)


def everything(*extra: Scenario) -> list[Batch]:
    return [*energies(*extra), *cut_into_batches([BASE], Trainings())]


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> SweepResult:
    """What this process gives by itself."""
    return run_sweep(everything(), tmp_path_factory.mktemp("local"))


@pytest.fixture(autouse=True)
def own_ray(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No cluster that happens to run on this machine is used, and none is left connected."""
    monkeypatch.setenv("RAY_ADDRESS", "local")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    ray.shutdown()
    yield
    ray.shutdown()


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two nodes of one core each."""
    from ray.cluster_utils import Cluster

    nodes = Cluster()
    try:
        for _ in range(2):
            nodes.add_node(num_cpus=1, num_gpus=0, include_dashboard=False)
        nodes.wait_for_nodes()
        yield nodes
    finally:
        ray.shutdown()
        nodes.shutdown()


@pytest.fixture
def connected(cluster: Any) -> None:
    ray.init(address=cluster.address, log_to_driver=False, logging_level="error")


@pytest.mark.long
def test_a_local_ray_gives_what_this_process_gives(expected: SweepResult, tmp_path: Path) -> None:
    """It is started for the sweep and gone afterwards; what it gave is kept as always."""
    assert run_sweep(everything(), tmp_path, engine="ray", jobs=2) == expected
    assert not ray.is_initialized()
    again = run_sweep(everything(), tmp_path)
    assert (again.outcomes, again.kept_batches) == (expected.outcomes, 3)


@pytest.mark.long
def test_the_cluster_that_ray_address_names_is_used(
    cluster: Any, expected: SweepResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two batches that wait for each other run at once on nodes of one core each: on both nodes."""
    monkeypatch.setenv("RAY_ADDRESS", cluster.address)
    arrived = tmp_path / "nodes"
    arrived.mkdir()

    class Together(Energies):
        def run(self, batch: Batch, place: Place) -> Any:
            (arrived / ray.get_runtime_context().get_node_id()).touch()
            while len(list(arrived.iterdir())) < 2:
                time.sleep(0.02)
            return super().run(batch, place)

    told: list[int] = []
    result = run_sweep(
        energies(kind=Together()),
        tmp_path / "swept",
        engine="ray",
        jobs=0,
        progress=lambda _stage, done, _total: told.append(done),
    )
    assert {node.name for node in arrived.iterdir()} == {
        node.node_id for node in (cluster.head_node, *cluster.worker_nodes)
    }
    for key, outcome in result.outcomes.items():
        assert outcome == expected.outcomes[key]
    assert told == [0, 500, 1000]
    assert not ray.is_initialized()


@pytest.mark.long
@pytest.mark.usefixtures("connected")
def test_a_cluster_gives_what_this_process_gives_but_for_what_cannot_be_run(
    expected: SweepResult, tmp_path: Path
) -> None:
    result = run_sweep(everything(REFUSED), tmp_path, engine="ray", jobs=0)
    assert len(ray.nodes()) == 2
    assert ray.is_initialized()  # it was connected before, and so it still is
    outcomes = dict(result.outcomes)
    refused = outcomes.pop(("energy", REFUSED))
    assert "error" in refused
    assert refused["error"].startswith("privacy.epsilon = 3: paper-loose certifies only")
    assert outcomes == expected.outcomes
    assert len(list(tmp_path.glob("*.json"))) == 3  # the refused one would be refused again


@pytest.mark.long
@pytest.mark.usefixtures("connected")
def test_a_lost_process_costs_its_own_batch(expected: SweepResult, tmp_path: Path) -> None:
    """It is tried a second time, and then given up in one line."""
    tries = tmp_path / "tries"
    tries.mkdir()

    class Deadly(Energies):
        def run(self, batch: Batch, place: Place) -> Any:
            if batch[0].seed == 0:
                (tries / str(os.getpid())).touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return super().run(batch, place)

    result = run_sweep(energies(kind=Deadly()), tmp_path / "swept", engine="ray", jobs=1)
    assert len(list(tries.iterdir())) == 2
    for (kind, scenario), outcome in result.outcomes.items():
        if scenario.seed == 0:
            assert "error" in outcome
            assert outcome["error"]
            assert "\n" not in outcome["error"]
        else:
            assert outcome == expected.outcome(kind, scenario)
    assert len(list((tmp_path / "swept").glob("*.json"))) == 1  # what broke is tried again
    again = run_sweep(energies(), tmp_path / "swept")
    assert again.kept_batches == 1
    assert all(outcome == expected.outcomes[key] for key, outcome in again.outcomes.items())


@pytest.mark.long
@pytest.mark.usefixtures("connected")
def test_a_cluster_without_a_gpu_refuses_cuda_in_one_line(expected: SweepResult, tmp_path: Path) -> None:
    trainings = cut_into_batches([BASE], Trainings(), device="cuda")
    with pytest.raises(AirMixError) as problem:
        run_sweep(trainings, tmp_path, engine="ray")
    assert str(problem.value) == "--device = cuda: no node of the Ray cluster has a GPU; use --device cpu"
    assert not list(tmp_path.glob("*.json"))
    # Energies take none, whatever the device.
    energy = cut_into_batches([BASE.with_overrides("mixing.alpha=1")], Energies(), device="cuda")
    result = run_sweep(energy, tmp_path, engine="ray")
    assert result.outcomes.items() <= expected.outcomes.items()


@pytest.mark.long
@pytest.mark.usefixtures("connected")
def test_a_grid_on_a_cluster_gives_what_this_process_gives(tmp_path: Path) -> None:
    """Each cell by itself, and what one engine finished the other keeps."""
    base, grid = Scenario.preset("private-iris"), Grid.of({"privacy.epsilon": [0.5, 5], "radio.scheduled": [2000, 9]})
    here = sweep_grid(base, grid, seeds=2, jobs=1, out=tmp_path / "here")
    there = sweep_grid(base, grid, seeds=2, engine="ray", out=tmp_path / "there")
    assert [row.error for row in there.rows] == [row.error for row in here.rows]
    for one, other in zip(here.rows, there.rows, strict=True):
        same = {name for name in one.metrics if not name.startswith("seconds")}
        assert {name: one.metrics[name] for name in same} == {name: other.metrics[name] for name in same}
    again = sweep_grid(base, grid, seeds=2, jobs=1, out=tmp_path / "there")
    assert again.kept == 8
    assert again.rows == there.rows


def test_an_address_where_nobody_listens_is_refused_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    monkeypatch.setattr(ray, "init", lambda **_options: pytest.fail("Ray would try for minutes"))
    with pytest.raises(AirMixError) as problem:
        run_sweep(energies(), tmp_path, engine="ray")
    assert str(problem.value) == (
        "--engine ray: no cluster at RAY_ADDRESS = '127.0.0.1:1' (Connection refused); start one, set another address, "
        "or leave --engine out"
    )
    assert not ray.is_initialized()
    assert run_sweep(energies(), tmp_path, engine="local").kept_batches == 0  # the folder is free again


def test_without_ray_one_line_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)  # as if it were not installed
    with pytest.raises(AirMixError) as problem:
        run_sweep(energies(), tmp_path, engine="ray")
    assert str(problem.value) == (
        "--engine ray: Ray is not installed; pip install 'airmixml[ray]', or leave --engine out"
    )
    assert run_sweep(energies(), tmp_path, engine="local").kept_batches == 0
