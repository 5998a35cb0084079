"""Engines: the same results in any order, one process that raises or dies told in one line."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from airmixml import AirMixError, ScenarioError
from airmixml.engines import Engine
from airmixml.engines.processes import Raised, Work, attempt

SQUARES = [number**2 for number in range(10)]


def _item(shared: list[int], item: int, _tell: Any) -> int:
    return shared[item]


def _end(_shared: None, item: int, _tell: Any) -> None:
    os._exit(item)


def item_of(shared: list[int]) -> Work:
    return partial(_item, shared)


def end_with(shared: None) -> Work:
    return partial(_end, shared)


def test_this_process_prepares_once_and_goes_in_order() -> None:
    prepared = []

    def prepare(shared: list[int]) -> Any:
        prepared.append(shared)
        return item_of(shared)

    assert list(Engine().run(prepare, SQUARES, [3, 1, 2])) == [(3, 9), (1, 1), (2, 4)]
    assert prepared == [SQUARES]
    assert list(Engine().run(prepare, SQUARES, [])) == []
    assert prepared == [SQUARES]


def test_results_that_come_early_wait_for_their_turn(backwards: Engine) -> None:
    assert [item for item, _ in backwards.run(item_of, SQUARES, [3, 1, 2])] == [2, 1, 3]
    assert list(backwards.run_in_order(item_of, SQUARES, [3, 1, 2])) == [9, 1, 4]


def test_two_processes() -> None:
    engine = Engine(jobs=2)
    assert dict(engine.run(item_of, SQUARES, [3, 1, 2])) == {3: 9, 1: 1, 2: 4}
    with pytest.raises(IndexError, match="out of range"):
        dict(engine.run(item_of, SQUARES, [3, 10]))
    with pytest.raises(AirMixError) as problem:
        dict(engine.run(end_with, None, [3]))
    assert str(problem.value) == "--engine = local: part 1 of 1: its process ended with exit code 3"


SCRIPT = """
from operator import attrgetter
from airmixml.engines import Engine
{guard}print(list(Engine.of("local", 2).run_in_order(attrgetter("get"), {{0: "a", 1: "b"}}, [0, 1])))
"""


@pytest.mark.parametrize(
    ("guard", "said"),
    [
        ('if __name__ == "__main__": ', "['a', 'b']"),
        ("", 'jobs: every process reads this script from its beginning; put the call below if __name__ == "__main__":'),
    ],
)
def test_a_script_that_starts_processes_while_it_is_read(guard: str, said: str, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(guard=guard), encoding="utf-8")
    ended = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    last = (ended.stdout + ended.stderr).splitlines()[-1]
    assert said in last
    assert ended.stderr.count("Traceback") == (0 if guard else 1)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_two_cores_of_a_new_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = pytest.importorskip("ray")
    monkeypatch.setenv("RAY_ADDRESS", "local")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    engine = Engine(name="ray", jobs=2)
    ray.init(num_cpus=2, log_to_driver=False, include_dashboard=False)
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    try:
        assert dict(engine.run(item_of, SQUARES, [3, 1, 2])) == {3: 9, 1: 1, 2: 4}
        with pytest.raises(IndexError, match="out of range"):
            dict(engine.run(item_of, SQUARES, [3, 10]))
        with pytest.raises(AirMixError, match="--engine = ray: part 1 of 1: "):
            dict(engine.run(end_with, None, [3]))
        assert ray.is_initialized()
    finally:
        ray.shutdown()


def test_what_cannot_be_sent_is_told_in_words() -> None:
    class Local(Exception):
        pass

    def work(_item: None, _tell: Any) -> None:
        raise Local("in two\nlines")

    raised = attempt(work, None, print)
    assert isinstance(raised, Raised)
    assert (type(raised.problem), str(raised.problem)) == (AirMixError, "Local: in two lines")


def test_options() -> None:
    assert Engine.of("local") == Engine(name="local", jobs=1)
    assert Engine.of("local").here
    assert Engine.of("ray") == Engine(name="ray", jobs=0)
    assert Engine.of("ray", 3) == Engine(name="ray", jobs=3)
    assert Engine.of("processes", 2) == Engine(name="local", jobs=2)
    assert not Engine.of("ray", 1).here
    with pytest.raises(ScenarioError, match=r"--engine = 'rai': must be local or ray; did you mean ray\?"):
        Engine.of("rai")
    for name in (None, 3, ["ray"]):
        with pytest.raises(ScenarioError, match=r"--engine = .*: must be local or ray"):
            Engine.of(name)  # type: ignore[arg-type]
    with pytest.raises(ScenarioError, match="--jobs = 0: must be from 1 to 4096"):
        Engine.of("local", 0)
