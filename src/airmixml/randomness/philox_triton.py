"""Philox4x64-10 as one kernel on a GPU: the same bits as ``philox.philox4x64``, a hundred times faster."""

from typing import Final

import torch
import triton
import triton.language as tl

_COUNTERS_AT_ONCE: Final = 1024


def launch(key: tuple[int, int], attempt: int, start: int, counters: int, device: torch.device) -> torch.Tensor:
    """Return the words of ``counters`` counters from number ``start`` on; shape 4 counters."""
    words = torch.empty(4 * counters, dtype=torch.int64, device=device)
    # As int64 tensors: Triton would take a large Python integer for an unsigned or a 128-bit one.
    place = torch.tensor(
        [_as_signed(key[0]), _as_signed(key[1]), start, attempt], dtype=torch.int64, pin_memory=True
    ).to(device, non_blocking=True)
    with torch.cuda.device(device):
        _write_words[(triton.cdiv(counters, _COUNTERS_AT_ONCE),)](words, place, counters, BLOCK=_COUNTERS_AT_ONCE)
    return words


def _as_signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word


@triton.jit  # type: ignore[untyped-decorator]
def _write_words(words, place, counters, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    offset = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    k0 = tl.load(place).to(tl.uint64)
    k1 = tl.load(place + 1).to(tl.uint64)
    c0 = (tl.load(place + 2) + 1 + offset).to(tl.uint64)
    c1 = tl.zeros_like(c0) + tl.load(place + 3).to(tl.uint64)
    c2 = tl.zeros_like(c0)
    c3 = tl.zeros_like(c0)
    m0 = tl.full(c0.shape, 0xD2E7470EE14C6C93, tl.uint64)
    m1 = tl.full(c0.shape, 0xCA5A826395121157, tl.uint64)
    w0 = tl.full(k0.shape, 0x9E3779B97F4A7C15, tl.uint64)
    w1 = tl.full(k1.shape, 0xBB67AE8584CAA73B, tl.uint64)
    for _ in tl.static_range(10):
        high0 = tl.umulhi(m0, c0)
        high1 = tl.umulhi(m1, c2)
        low0 = m0 * c0
        low1 = m1 * c2
        c0 = high1 ^ c1 ^ k0
        c1 = low1
        c2 = high0 ^ c3 ^ k1
        c3 = low0
        k0 = k0 + w0
        k1 = k1 + w1
    inside = offset < counters
    first = words + 4 * offset
    tl.store(first, c0.to(tl.int64), mask=inside)
    tl.store(first + 1, c1.to(tl.int64), mask=inside)
    tl.store(first + 2, c2.to(tl.int64), mask=inside)
    tl.store(first + 3, c3.to(tl.int64), mask=inside)
