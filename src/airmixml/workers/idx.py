"""The IDX format of MNIST: a magic number, the sizes, then one byte per value."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from airmixml.errors import DataError

__all__ = ["idx_byte_count", "parse_idx"]

_UNSIGNED_BYTES = 0x08
_BYTES_PER_NUMBER = 4


def idx_byte_count(shape: tuple[int, ...]) -> int:
    """Return how long an IDX file of unsigned bytes of this shape is."""
    return _BYTES_PER_NUMBER * (1 + len(shape)) + math.prod(shape)


def parse_idx(content: bytes, shape: tuple[int, ...], source: str) -> NDArray[np.uint8]:
    """Return the array in an IDX file, as a view of ``content``; its header must declare ``shape``."""
    header_bytes = _BYTES_PER_NUMBER * (1 + len(shape))
    magic = bytes([0, 0, _UNSIGNED_BYTES, len(shape)])
    if content[:_BYTES_PER_NUMBER] != magic:
        raise DataError(
            f"{source}: begins with {content[:4].hex() or 'nothing'}: must begin with {magic.hex()}, "
            f"an IDX file of bytes in {len(shape)} dimensions"
        )
    if len(content) < header_bytes:
        raise DataError(f"{source}: breaks off in its header; get the file anew")
    sizes = np.frombuffer(content, dtype=">u4", count=len(shape), offset=_BYTES_PER_NUMBER)
    declared = tuple(int(size) for size in sizes)
    if declared != shape:
        raise DataError(f"{source}: its header declares the shape {declared}: must be {shape}")
    if len(content) != idx_byte_count(shape):
        raise DataError(f"{source}: has {len(content)} bytes: must have {idx_byte_count(shape)}")
    return np.frombuffer(content, dtype=np.uint8, offset=header_bytes).reshape(shape)
