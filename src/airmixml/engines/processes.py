"""Items on several processes of this machine, or of a Ray cluster: one may die without the others.

The cluster is that of RAY_ADDRESS, one running on this machine, or a new one.
"""

import multiprocessing
import os
import pickle
import secrets
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import import_module
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Final

from airmixml.messages import AirMixError, one_line, reason

Tell = Callable[[Any], None]
"""Told how far an item is, where anybody listens."""
Work = Callable[[Any, Tell], Any]
"""Makes the result of an item."""
Prepare = Callable[[Any], Work]
"""Makes of what all items share, once in each process, what makes their results."""


@dataclass(frozen=True)
class Lost:
    """Stands for the result of an item whose process or node was lost; ``why`` is one line."""

    why: str


@dataclass(frozen=True)
class Raised:
    """Stands for the result of an item whose work raised."""

    problem: Exception


def attempt(work: Work, item: Any, tell: Tell) -> Any:
    """Return the result of an item, or what it raised in a shape that another process can read."""
    try:
        return work(item, tell)
    except Exception as problem:
        if not isinstance(problem, AirMixError):
            problem.add_note(traceback.format_exc())
        try:
            pickle.loads(pickle.dumps(problem))
        except Exception:
            problem = AirMixError(one_line(f"{type(problem).__name__}: {problem}"))
        return Raised(problem)


_SAFE_PATH: Final = "PYTHONSAFEPATH"  # so that it imports nothing from the working folder before it has our sys.path
_RAN_THE_SCRIPT: Final = 77  # how a process ends that came to start others before it had any work


def end_if_started_by_script() -> None:
    """End a process that is only to read the script of another and came to a call that would start more of them."""
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        sys.exit(_RAN_THE_SCRIPT)


class _Worker:
    """A process that makes one result after the other."""

    def __init__(self, prepare: Prepare, shared: Any) -> None:
        end_if_started_by_script()
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process: BaseProcess = context.Process(target=_serve, args=(theirs, prepare, shared), daemon=True)
        with ExitStack() as held:
            if not os.environ.get(_SAFE_PATH):
                os.environ[_SAFE_PATH] = "1"
                held.callback(os.environ.pop, _SAFE_PATH)
            self.process.start()
        theirs.close()

    def give(self, item: Any) -> bool:
        """Hand over an item; False if the process has ended."""
        self.item = item
        try:
            self.connection.send(item)
        except OSError:
            return False
        return True

    def receive(self) -> tuple[bool, Any]:
        """Return whether the item is finished, and its result or what it told; a process that died has lost it."""
        try:
            finished, message = self.connection.recv()
            return finished, message
        except (EOFError, OSError):
            self.process.join()
            code = self.process.exitcode or 0
            if code == _RAN_THE_SCRIPT:
                advice = 'put the call below if __name__ == "__main__":, or give jobs=1'
                return True, Raised(AirMixError(f"jobs: every process reads this script from its beginning; {advice}"))
            how = f"with exit code {code}" if code >= 0 else f"by signal {-code}"
            return True, Lost(f"its process ended {'by SIGKILL (out of memory?)' if code == -9 else how}")

    def stop(self) -> None:
        self.process.terminate()
        self.process.join()
        self.connection.close()


def run_in_processes(
    prepare: Prepare,
    shared: Any,
    items: Sequence[Any],
    jobs: int,
    *,
    told: Callable[[Any, Any], None] = lambda _item, _told: None,
    left_behind: Callable[[Any], Sequence[Any]] = lambda _item: (),
) -> Iterator[tuple[Any, Any]]:
    """Yield each item with its result as soon as that is there, or ``Lost`` if its process died; see ``Engine``."""
    waiting = list(reversed(items))
    busy: dict[Any, _Worker] = {}  # by their connection
    idle: list[_Worker] = []

    def begin_items() -> None:
        while waiting and len(busy) < jobs:
            new = not idle
            worker = _Worker(prepare, shared) if new else idle.pop()
            # A new process that died at once is noticed when it is listened to.
            if not worker.give(waiting[-1]) and not new:
                worker.stop()
                continue
            waiting.pop()
            busy[worker.connection] = worker
        while idle and not waiting:
            idle.pop().stop()

    try:
        while waiting or busy:
            begin_items()
            for ready in wait(list(busy)):
                worker = busy[ready]
                finished, message = worker.receive()
                if not finished:
                    told(worker.item, message)
                    continue
                if isinstance(message, Raised):
                    raise message.problem
                del busy[ready]
                undone: Sequence[Any] = ()
                if isinstance(message, Lost):
                    worker.stop()
                    undone = left_behind(worker.item)
                    waiting += reversed(undone)
                else:
                    idle.append(worker)
                item = worker.item
                begin_items()  # before anybody looks at the result
                if not undone:
                    yield item, message
    finally:
        for worker in [*busy.values(), *idle]:
            worker.stop()


def _serve(connection: Connection, prepare: Prepare, shared: Any) -> None:
    """Work on what is sent; end with the process that sends it, so that a killed command leaves none behind."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the command itself stops its processes
    threading.Thread(target=_end_with_parent, daemon=True).start()
    work = None
    try:
        while True:
            item = connection.recv()
            if work is None:
                made = attempt(lambda each, _: prepare(each), shared, lambda _message: None)
                if isinstance(made, Raised):
                    connection.send((True, made))
                    continue
                work = made
            connection.send((True, attempt(work, item, lambda message: connection.send((False, message)))))
    except (EOFError, OSError):
        os._exit(1)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


_CONNECT_SECONDS: Final = 5.0
# So many items wait on the cluster per core: enough to keep it busy, few enough for what they leave there to fit.
_ITEMS_PER_CORE: Final = 4


@contextmanager
def connected() -> Iterator[Any]:
    """Enter the cluster and return the module; leave it afterwards, unless it was entered before."""
    try:
        ray: Any = import_module("ray")
    except ImportError:
        hint = "pip install 'airmixml[ray]', or leave --engine out"
        raise AirMixError(f"--engine ray: Ray is not installed; {hint}") from None
    started = not ray.is_initialized()
    if started:
        _connect(ray)
    try:
        yield ray
    finally:
        if started:
            ray.shutdown()


def run_on_ray(
    prepare: Prepare,
    shared: Any,
    items: Sequence[Any],
    jobs: int,
    *,
    on_gpu: Callable[[Any], bool] = lambda _item: False,
) -> Iterator[tuple[Any, Any]]:
    """Yield each item with its result as soon as that is there, or ``Lost`` if its process died twice.

    At most ``jobs`` at a time (0: as many as the cluster takes); ``shared`` is sent to each node once.
    """
    running: dict[Any, Any] = {}  # items by their calls
    with connected() as ray:
        resources = ray.cluster_resources()
        if any(map(on_gpu, items)) and not resources.get("GPU"):
            raise AirMixError("--device = cuda: no node of the Ray cluster has a GPU; use --device cpu")
        at_once = jobs or _ITEMS_PER_CORE * max(_ITEMS_PER_CORE, int(resources.get("CPU", 0)))
        kept, name = ray.put(shared), secrets.token_hex(8)
        waiting = list(reversed(items))
        try:
            while waiting or running:
                while waiting and len(running) < at_once:
                    item = waiting.pop()
                    needs = {"num_cpus": 1, "num_gpus": int(on_gpu(item))}
                    # In a list it is fetched only by a process that has not prepared the work yet.
                    call = ray.remote(max_retries=1, **needs)(_call).remote(name, prepare, [kept], item)
                    running[call] = item
                done, _ = ray.wait(list(running), num_returns=1)
                item = running.pop(done[0])
                try:
                    result = ray.get(done[0])
                except ray.exceptions.RayError as problem:  # the node or its process was lost, twice
                    result = Lost(one_line(str(problem)))
                if isinstance(result, Raised):
                    raise result.problem
                yield item, result
        finally:
            for call in running:
                ray.cancel(call, force=True)


_prepared: dict[str, Work] = {}  # of the last command that this process worked for


def _call(name: str, prepare: Prepare, kept: list[Any], item: Any) -> Any:
    """Make one result on a node of the cluster."""

    def work(given: Any, tell: Any) -> Any:
        if name not in _prepared:
            _prepared.clear()
            _prepared[name] = prepare(import_module("ray").get(kept[0]))
        return _prepared[name](given, tell)

    return attempt(work, item, lambda _message: None)


def _connect(ray: Any) -> None:
    """Join the cluster that RAY_ADDRESS names, or one on this machine; Ray itself would try for minutes."""
    address = os.environ.get("RAY_ADDRESS", "")
    host, _, port = address.rpartition(":")
    try:
        if host and port.isdigit() and "://" not in address:
            socket.create_connection((host, int(port)), timeout=_CONNECT_SECONDS).close()
        ray.init(log_to_driver=False, logging_level="error", include_dashboard=False)
    except (OSError, RuntimeError, ValueError) as problem:
        raise AirMixError(
            f"--engine ray: no cluster at RAY_ADDRESS = {address!r} ({reason(problem)}); start one, set another "
            "address, or leave --engine out"
        ) from None
