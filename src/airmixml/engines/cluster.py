"""Items on a Ray cluster: that of RAY_ADDRESS, one running on this machine, or a new one."""

import os
import secrets
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Final

from airmixml.engines.processes import Lost, Prepare, Raised, Work, attempt
from airmixml.errors import AirMixError
from airmixml.wording import one_line, reason

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
