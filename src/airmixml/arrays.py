"""Arrays: short names of types, shapes of inputs, decibels; torch, the device, the memory and the threads for them.

A shape is (height, width), or (channels, height, width). A series of several channels over time is an image of height
1: (channels, 1, time). So one tuple says all, and whatever can read an image with channels can read a series.

Work is cut into parts, one on each core: a part stays in the cache. Each of its steps is over sooner than torch's own
threads can be woken; two cores took longer than one so. Threads of both kinds at once would be worst of all: those that
wait for work keep the cores busy.
"""

from __future__ import annotations

import math
import os
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from airmixml.messages import NotFiniteError, PluginError, ScenarioError, shown


class _Late:
    """A module that is imported when something of it is first asked for."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        found = getattr(import_module(self._name), name)
        setattr(self, name, found)  # asked for once: then it is as fast as the module itself
        return found


# torch takes seconds to import. Who needs none imports files that could use it all the same: an account, a device that
# only makes vectors.
if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

    import torch as torch  # noqa: PLC0414  # others import it from here
else:
    torch = _Late("torch")

Doubles = NDArray[np.float64]
Singles = NDArray[np.float32]
Integers = NDArray[np.int64]


def own_numbers(
    make: Callable[[], object], shape: tuple[int, ...], fits: Callable[[Doubles], NDArray[np.bool_]], refusal: str
) -> Doubles:
    """Return the numbers that an object of a user makes; refuse those of another shape, and those that do not fit."""
    try:
        found = np.asarray(make(), dtype=np.float64)
    except (TypeError, ValueError, NotImplementedError):
        found = np.full((), np.nan)
    if found.shape != shape or not np.all(fits(found)):
        raise PluginError(refusal)
    return found


def check_finite(stage: str, **made: torch.Tensor) -> None:
    """Refuse what a stage made if any of it is not finite, before it enters a sum, which all that is added would spoil.

    Sums of all numbers are looked at first: one quick pass, which may overflow where no number does, and on a GPU one
    wait for all of them.

    Parameters
    ----------
    stage
        What made the numbers, for the message.
    made
        Real or complex tensors of any shape, by the names of the quantities.

    Raises
    ------
    NotFiniteError
        It names the stage, the quantity, and how many of its numbers are infinite or undefined.
    """
    if bool(torch.stack([each.sum().abs().double() for each in made.values()]).isfinite().all()):
        return
    for name, each in made.items():
        wrong = int((~each.isfinite()).sum())
        if wrong:
            raise NotFiniteError(
                f"{stage}: {wrong:,} of {each.numel():,} numbers are not finite ({name}); must all be finite, so "
                "nothing of this block was counted; check objects and values of your own, or report the scenario and "
                "its seed as a bug"
            )


Shape = tuple[int, ...]
ImageShape = Shape | None
"""None where an input is a row of numbers without neighbours."""


def planes(shape: Shape) -> tuple[int, int, int]:
    """Return channels, height and width."""
    channels, height, width = shape if len(shape) == 3 else (1, *shape)
    return channels, height, width


def is_series(shape: ImageShape) -> bool:
    """Whether it is that of channels over time."""
    return shape is not None and len(shape) == 3 and shape[1] == 1


def in_words(shape: Shape) -> str:
    """Return the shape with crosses, as "3 x 32 x 32"; a series without its height."""
    sides = (shape[0], shape[2]) if is_series(shape) else shape
    return " x ".join(str(side) for side in sides)


def declared_shape(declared: Sequence[int], own: ImageShape, inputs: int, name: str = "workers.shape") -> ImageShape:
    """Return the shape that the user declares for an input of so many numbers; where none, the data set's own."""
    if not declared:
        return own
    shape = tuple(declared)
    if len(shape) not in (2, 3) or math.prod(shape) != inputs:
        raise ScenarioError(
            f"{name} = {shown(list(shape))}: must hold the {inputs} numbers of an input, as [height, width], "
            "[channels, height, width], or [channels, 1, time]"
        )
    if own is not None and planes(own) != planes(shape) and len(own) != 2:
        raise ScenarioError(
            f"{name} = {shown(list(shape))}: the data set says {in_words(own)} itself; leave {name} out"
        )
    return shape


def per_input(bounds: Sequence[float], shape: ImageShape) -> Sequence[float]:
    """Return a bound for each number of an input where one is given for each channel; else the bounds as they are."""
    if shape is None or len(shape) != 3 or len(bounds) != shape[0]:
        return bounds
    return tuple(bound for bound in bounds for _ in range(math.prod(shape[1:])))


def db_to_ratio(decibels: float) -> float:
    """Power ratio of a value in dB; beyond what a double holds, infinity or zero."""
    try:
        return float(10.0 ** (decibels / 10.0))
    except OverflowError:
        return math.inf


def ratio_to_db(ratio: ArrayLike) -> Doubles:
    """dB of a power ratio; zero gives -inf."""
    with np.errstate(divide="ignore"):
        return np.asarray(10.0 * np.log10(np.asarray(ratio, dtype=np.float64)))


def dbm_to_watts(dbm: float) -> float:
    """Watts of a power in dBm."""
    return db_to_ratio(dbm - 30.0)


def watts_to_dbm(watts: ArrayLike) -> Doubles:
    """dBm of a power in watts; zero gives -inf."""
    return np.asarray(ratio_to_db(watts) + 30.0)


def as_tensor(values: NDArray[Any]) -> torch.Tensor:
    """Return the array as a tensor; one that was read may be read-only, which torch warns of."""
    return torch.from_numpy(values if values.flags.writeable else values.copy())


def turned_over(matrices: torch.Tensor) -> torch.Tensor:
    """Return the transposes of matrices, laid out anew; of a single one torch makes them many times faster."""
    return matrices[0].T.contiguous()[None] if len(matrices) == 1 else matrices.mT.contiguous()


def rows_of(values: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
    """Return some rows of each matrix, matrices x rows x any, by copying whole rows of all matrices in one."""
    firsts = torch.arange(len(values), device=chosen.device)[:, None] * values.shape[1]
    found = values.flatten(0, 1).index_select(0, (firsts + chosen).flatten())
    return found.view(len(values), len(chosen), *values.shape[2:])


def torch_is_missing() -> bool:
    """Whether torch is not installed: accounts of numbers and reports do without."""
    try:
        return find_spec("torch") is None
    except (ImportError, ValueError):  # whatever stands in its place
        return True


def needs_torch(what: str) -> str:
    """Return that something needs torch, and how to get it, in one line."""
    how = "pip install torch --index-url https://download.pytorch.org/whl/cpu"
    return f"{what} needs PyTorch, which is not installed; get it by: {how}"


def physical_memory_bytes() -> int:
    """Return the memory of this machine; where the system does not say (Windows), more than any has."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return sys.maxsize


def find_device(name: str) -> torch.device:
    """Return the device, or say in one line that it is not there."""
    try:
        device = torch.device(name)
    except RuntimeError:
        device = torch.device("meta")
    if device.type == "cpu":
        return device
    if device.type != "cuda":
        raise ScenarioError(f"device = {name!r}: must be cpu or cuda (cuda:1 for the second one)")
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if (device.index or 0) >= count:
        has = "no CUDA device" if count == 0 else f"{count} CUDA device(s), cuda:0 to cuda:{count - 1}"
        raise ScenarioError(f"device = {name!r}: this machine has {has}; use device cpu")
    return device


@contextmanager
def using_threads(threads: int) -> Iterator[None]:
    """Let torch use that many CPU threads for a while (0: as many as it does now)."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


_MOST_THREADS: Final = 16

Part = TypeVar("Part")
Made = TypeVar("Made")


def in_order(work: Callable[[Part], Made], parts: Sequence[Part], threads: int = 0) -> Iterator[Made]:
    """Yield what ``work`` makes of each part, in order, a few made ahead on several threads; torch uses one in each.

    The first part is done before all others: what is drawn or loaded when it is first needed is there for them. A
    single part uses torch's own threads. 0 threads: as many as torch uses. Where torch is not installed, one
    part follows another.
    """
    if torch_is_missing():
        yield from map(work, parts)
        return
    from concurrent.futures import ThreadPoolExecutor  # here: a worker makes no threads

    at_once = min(_MOST_THREADS, threads or torch.get_num_threads(), os.cpu_count() or 1, len(parts) - 1)
    if at_once < 2:
        for part in parts:
            with using_threads(threads):
                made = work(part)
            yield made
        return
    with using_threads(1):
        made = work(parts[0])
    yield made
    before = torch.get_num_threads()
    pending: deque[Future[Made]] = deque()
    pool = ThreadPoolExecutor(at_once, "airmix", initializer=torch.set_num_threads, initargs=(1,))
    try:
        for part in parts[1:]:
            pending.append(pool.submit(work, part))
            if len(pending) > at_once:  # no more ahead: each may be large
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
        torch.set_num_threads(before)  # some libraries below torch know one number for all threads


def without_torch(work: Callable[[int], None], parts: Sequence[int]) -> None:
    """Call ``work``, which never calls torch, with each part, all at once."""
    if len(parts) == 1:
        work(parts[0])
        return
    # Consumed, so that a problem in a thread is raised here.
    list(_pool(os.getpid()).map(work, parts))


@lru_cache(maxsize=1)
def _pool(process: int) -> ThreadPoolExecutor:
    """Return the threads of a process; one that was forked has none of its parent's."""
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(os.cpu_count() or 1, f"airmix-{process}")
