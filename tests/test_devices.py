"""Memory that runs out is recognised by what it is, whatever a processor's library calls it."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import numpy as np
import pytest
import torch

from airmixml.messages import is_out_of_memory

EXHAUSTED = """
    import resource
    import numpy as np
    import torch
    from airmixml.messages import is_out_of_memory

    torch.zeros(1)
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    held = int(next(line for line in open("/proc/self/status") if line.startswith("VmSize")).split()[1]) * 1024
    resource.setrlimit(resource.RLIMIT_AS, (held + 200_000_000, most))
    works = {
        "torch": lambda: [torch.ones(5_000_000) for _ in range(100)],
        "network": lambda: torch.nn.Linear(20_000, 20_000),
        "numpy": lambda: [np.ones(5_000_000) for _ in range(100)],
        "python": lambda: [bytes(50_000_000) for _ in range(100)],
    }
    for name, work in works.items():
        try:
            work()
        except Exception as problem:
            print(name, is_out_of_memory(problem))
"""


@pytest.mark.long
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits the address space of a process")
def test_memory_that_really_ran_out_is_recognised() -> None:
    ran = subprocess.run([sys.executable, "-c", textwrap.dedent(EXHAUSTED)], capture_output=True, text=True, check=True)
    assert ran.stdout.split("\n") == ["torch True", "network True", "numpy True", "python True", ""]


def test_other_errors_are_not_taken_for_it() -> None:
    for work in (
        lambda: torch.ones(2) @ torch.ones(3),
        lambda: torch.ones(2, 3).view(7),
        lambda: np.ones(2) @ np.ones(3),
        lambda: torch.load("nowhere"),
    ):
        with pytest.raises(Exception) as caught:
            work()
        assert not is_out_of_memory(caught.value)


def test_a_gpu_without_memory_and_python_without_torch() -> None:
    assert is_out_of_memory(torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20 MiB"))
    code = "import sys; from airmixml.messages import is_out_of_memory as out; assert out(MemoryError()); "
    code += "assert not out(RuntimeError('x')); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
