"""Processes that end or stand still before their work is done are started again, as often as is sensible."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from airmixml.deploy.endpoint import DeployError
from airmixml.deploy.supervision import Part, Supervisor

LAST_RESORT = 60.0
FOREVER = "import time; time.sleep(600)"


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def kept(clock: Clock) -> Iterator[Supervisor]:
    supervisor = Supervisor(patience=3.0, clock=clock)
    yield supervisor
    supervisor.end(0.0)


@pytest.fixture
def add(kept: Supervisor, tmp_path: Path) -> Callable[..., Part]:
    def add(name: str, script: str = FOREVER, **options: bool) -> Part:
        log = tmp_path / f"{name}.log"

        def start() -> subprocess.Popen[bytes]:
            with log.open("ab") as file:
                return subprocess.Popen([sys.executable, "-S", "-c", script], stderr=file)

        kept.add(name, Part(start, log, **options))
        return kept.parts[name]

    return add


def looked(kept: Supervisor, clock: Clock, until: str) -> list[str]:
    """Look again and again, half a second apart by the clock, until something happens that begins with these words."""
    found: list[str] = []
    end = time.monotonic() + LAST_RESORT
    while not any(each.partition(": ")[2].startswith(until) for each in found):
        assert time.monotonic() < end, found
        found += [f"{name}: {what}" for name, what in kept.look()]
        clock.now += 0.5
        time.sleep(0.01)
    return found


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1])
def test_what_a_signal_ends_is_started_again(
    how: signal.Signals, kept: Supervisor, clock: Clock, add: Callable[..., Part]
) -> None:
    defaults = (
        "import signal, sys; [signal.signal(each, signal.SIG_DFL) for each in (1, 2)]; sys.stderr.write('ready');"
    )
    part = add("worker-1", f"{defaults} sys.stderr.flush(); {FOREVER}")
    before, end = part.child, time.monotonic() + LAST_RESORT
    assert before is not None
    while b"ready" not in part.log.read_bytes():
        assert time.monotonic() < end
        time.sleep(0.01)
    assert list(kept.look()) == []
    before.send_signal(how)
    assert looked(kept, clock, "started again") == [f"worker-1: killed by {how.name}", "worker-1: started again"]
    assert part.child is not None
    assert part.child.pid != before.pid
    assert part.child.poll() is None


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems do not tell")
def test_what_stands_still_is_ended_after_a_deadline_and_started_again(
    kept: Supervisor, clock: Clock, add: Callable[..., Part]
) -> None:
    part = add("broker", has_end=False)
    assert part.child is not None
    part.child.send_signal(signal.SIGSTOP)
    assert looked(kept, clock, "is stopped") == ["broker: is stopped"]
    part.child.send_signal(signal.SIGCONT)
    while list(kept.look()) or part.stopped is not None:
        time.sleep(0.01)
    part.child.send_signal(signal.SIGSTOP)
    looked(kept, clock, "is stopped")
    began = clock.now
    assert looked(kept, clock, "started again") == ["broker: killed by SIGKILL", "broker: started again"]
    assert clock.now - began >= 2.0


def test_a_worker_that_refuses_again_and_again_stays_away_with_its_reason(
    kept: Supervisor, clock: Clock, add: Callable[..., Part]
) -> None:
    add("worker-1", "raise SystemExit('airmix: error: rows.npz: has no rows')")
    add("worker-2")
    found = looked(kept, clock, "stays away")
    assert found.count("worker-1: started again") == 5
    assert found[0] == "worker-1: ends: rows.npz: has no rows"
    assert found[-1] == "worker-1: stays away: rows.npz: has no rows"
    clock.now += 100.0
    assert list(kept.look()) == []
    assert kept.parts["worker-2"].child is not None


@pytest.mark.parametrize("must_be", [False, True])
def test_what_cannot_be_started_again_is_told_with_its_reason(
    kept: Supervisor, clock: Clock, add: Callable[..., Part], must_be: bool
) -> None:
    part = add("broker", has_end=False, must_be=must_be)

    def refuse() -> subprocess.Popen[bytes]:
        raise DeployError("port 8883 is taken")

    part.start = refuse
    assert part.child is not None
    part.child.kill()
    if must_be:
        with pytest.raises(DeployError, match="broker: port 8883 is taken"):
            looked(kept, clock, "never")
    else:
        found = looked(kept, clock, "stays away")
        assert found == ["broker: killed by SIGKILL", "broker: stays away: port 8883 is taken"]


def test_what_was_sound_for_a_while_may_be_killed_for_ever(
    kept: Supervisor, clock: Clock, add: Callable[..., Part]
) -> None:
    part = add("server", must_be=True)
    for _ in range(8):
        clock.now += 40.0
        assert part.child is not None
        part.child.kill()
        looked(kept, clock, "started again")


def test_a_server_that_is_killed_again_and_again_or_refuses_is_an_error(
    kept: Supervisor, clock: Clock, add: Callable[..., Part]
) -> None:
    add("server", "import os; os.kill(os.getpid(), 9)", must_be=True)
    with pytest.raises(DeployError, match="server: was killed 6 times in a row; its last words: no word in "):
        looked(kept, clock, "never")
    add("server", "raise SystemExit('airmix: error: no round was completed')", must_be=True)
    with pytest.raises(DeployError, match=r"^server: no round was completed$"):
        looked(kept, clock, "never")


def test_what_has_done_its_work_is_left_alone(kept: Supervisor, clock: Clock, add: Callable[..., Part]) -> None:
    part = add("worker-1", "")
    assert part.child is not None
    part.child.wait()
    clock.now += 10.0
    assert list(kept.look()) == []
    assert part.is_done
