"""The device and the CPU threads that torch computes with."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

from airmixml.errors import ScenarioError

if TYPE_CHECKING:
    import torch  # takes seconds to load, and not everybody who asks for the memory needs it


def torch_is_missing() -> bool:
    """Whether torch is not installed: accounts, plans, ledgers, reports and predictions of linear models do without."""
    return find_spec("torch") is None


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
    import torch

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
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(threads or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def is_out_of_memory(problem: BaseException) -> bool:
    """Return whether memory ran out: in Python, in NumPy, or in torch on a processor or a GPU.

    torch's CPU allocator raises a plain RuntimeError, worded by processor and version. So the problem is compared with
    what torch says when it is asked for more than any machine has.
    """
    torch = sys.modules.get("torch")
    if torch is None or "torch._C" not in sys.modules or not isinstance(problem, RuntimeError):
        return isinstance(problem, MemoryError)
    if isinstance(problem, torch.OutOfMemoryError) or "out of memory" in str(problem):
        return True
    try:
        torch.empty(2**62, dtype=torch.uint8, device="cpu")
    except RuntimeError as refused:
        return _without_numbers(problem) == _without_numbers(refused)
    return False


def _without_numbers(problem: BaseException) -> str:
    return re.sub(r"\d+", "", str(problem).partition("\n")[0])
