"""The device and the CPU threads that torch computes with."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from airmixml.errors import ScenarioError


def physical_memory_bytes() -> int:
    """Return the memory of this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def is_out_of_memory(problem: BaseException) -> bool:
    """Return whether torch or Python ran out of memory; on a CPU torch raises a plain RuntimeError."""
    ran_out = isinstance(problem, MemoryError | torch.OutOfMemoryError)
    return ran_out or (isinstance(problem, RuntimeError) and "DefaultCPUAllocator" in str(problem))


def find_device(name: str) -> torch.device:
    """Return the device, or say in one line that it is not there."""
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ScenarioError(f"device = {name!r}: must be cpu or cuda (cuda:1 for the second one)") from None
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
