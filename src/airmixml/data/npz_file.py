"""NumPy NPZ files with the array ``inputs``, others beside it and, where axes mean something else, ``layout``.

Inputs are samples x features, samples x height x width, or samples x channels x height x width; the text ``layout`` may
be "channels x time", or "height x width x channels".
"""

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airmixml.arrays import ImageShape, physical_memory_bytes
from airmixml.files import open_regular
from airmixml.messages import DataError, private, reason, shown

_HOW_TO_SAVE = "save it with numpy.savez(file, inputs=..., labels=...)"
_IMAGES, _COLOUR, _SERIES = "height x width", "channels x height x width", "channels x time"
_COLOUR_LAST = "height x width x channels"
_LAYOUTS = {1: ("features",), 2: (_IMAGES, _SERIES), 3: (_COLOUR, _COLOUR_LAST)}
_MOST_COLOURS = 4


def read_arrays(
    path: Path, others: tuple[str, ...], needed: str
) -> tuple[NDArray[Any], ImageShape, dict[str, NDArray[Any]]]:
    """Return finite inputs (samples x features), the shape of one where it is an image or a series, other arrays."""
    with _opened(path, needed) as archive:
        layout = str(_member(archive, "layout", path)) if "layout" in archive else ""
        inputs = _member(archive, "inputs", path)
        arrays = {name: _member(archive, name, path) for name in others}
    if inputs.dtype.kind not in "biuf":
        raise DataError(f"{path}: inputs are of type {shown(str(inputs.dtype))}: must be real numbers")
    if inputs.ndim not in (2, 3, 4):
        raise DataError(f"{path}: inputs have the shape {shown(inputs.shape)}: must be samples x features, or images")
    if 0 in inputs.shape[1:]:
        raise DataError(f"{path}: inputs have the shape {shown(inputs.shape)}: must have at least one feature")
    inputs, image_shape = _laid_out(inputs, layout, path)
    finite = np.isfinite(inputs) if inputs.dtype.kind == "f" else np.ones(1, dtype=bool)
    if not finite.all():
        place = [int(each) for each in np.argwhere(~finite)[0]]
        which = private(f"inputs{place} is {float(inputs[tuple(place)])}", "an input is missing or infinite")
        raise DataError(f"{path}: {which}: must be finite; fill it in or remove the sample")
    return inputs.reshape(len(inputs), np.prod(inputs.shape[1:], dtype=np.int64)), image_shape, arrays


def _laid_out(inputs: NDArray[Any], layout: str, path: Path) -> tuple[NDArray[Any], ImageShape]:
    """Return the inputs with their channels first, and the shape of one."""
    axes = inputs.ndim - 1
    if layout and layout not in _LAYOUTS[axes]:
        allowed = " or ".join(f'"{each}"' for each in _LAYOUTS[axes])
        raise DataError(f"{path}: layout is {shown(layout)}: must be {allowed} for inputs of {axes + 1} axes")
    sides = tuple(int(side) for side in inputs.shape[1:])
    if axes == 1:
        return inputs, None
    if layout == _SERIES:
        return inputs, (sides[0], 1, sides[1])
    if layout == _COLOUR_LAST:
        return np.moveaxis(inputs, -1, 1), (sides[2], sides[0], sides[1])
    if axes == 3 and not layout and sides[2] <= _MOST_COLOURS < min(sides[:2]):
        raise DataError(
            f"{path}: inputs have the shape {shown(inputs.shape)}: channels must come first, and {sides[0]} are many; "
            f'save layout="{_COLOUR_LAST}" beside them, or layout="{_COLOUR}" if they are right'
        )
    return inputs, sides


@contextmanager
def _opened(path: Path, needed: str) -> Iterator[Any]:
    """Open an NPZ file; whatever goes wrong in it is one line. ``needed`` says what to give."""
    try:
        with open_regular(path) as stream:
            if not zipfile.is_zipfile(stream):
                raise DataError(f"{path}: not an NPZ file; {_HOW_TO_SAVE}")
            stream.seek(0)
            with np.load(stream, allow_pickle=False) as archive:
                yield archive
    except DataError:
        raise
    except OSError as problem:
        raise DataError(f"{path}: cannot be read ({reason(problem)}); {needed}") from None
    except (SyntaxError, TokenError):  # NumPy reads the header of an array as Python
        raise DataError(f"{path}: broken (the header of an array cannot be read); {_HOW_TO_SAVE}") from None
    except Exception as problem:  # zipfile, zlib and NumPy raise a dozen unrelated types on broken bytes
        raise DataError(f"{path}: broken ({reason(problem)}); {_HOW_TO_SAVE}") from None


def _member(archive: Any, name: str, path: Path) -> NDArray[Any]:
    if name not in archive:
        there = ", ".join(str(other) for other in list(archive)[:10]) or "none"
        raise DataError(f"{path}: has no array {name!r} (it has: {shown(there)}); {_HOW_TO_SAVE}")
    unpacked, available = sum(each.file_size for each in archive.zip.infolist()), physical_memory_bytes()
    if unpacked > available:
        raise DataError(f"{path}: takes {unpacked / 1e9:.3g} GB of memory and there are {available / 1e9:.3g} GB")
    try:
        member = archive[name]
    except ValueError as problem:
        if "allow_pickle" in str(problem):
            raise DataError(
                f"{path}: {name} is an array of Python objects, which could run code when read; "
                "convert it to numbers (labels also to text) before saving"
            ) from None
        raise
    if not isinstance(member, np.ndarray):
        raise DataError(f"{path}: {name} is not a NumPy array; {_HOW_TO_SAVE}")
    # A type wider than double would overflow silently later on; now the check that follows sees infinity.
    if member.dtype.kind == "f" and member.dtype.itemsize > 8:
        with np.errstate(over="ignore"):
            return member.astype(np.float64)
    return member


def label_texts(labels: NDArray[Any], path: Path, *, missing: bool = False) -> list[str]:
    """Return labels (samples) as texts without blanks around them; refuse missing ones unless there may be some."""
    if labels.dtype.kind not in "biufUS":
        raise DataError(f"{path}: labels are of type {shown(str(labels.dtype))}: must be whole numbers or text")
    try:
        decoded = [label.decode("utf-8") if isinstance(label, bytes) else str(label) for label in labels]
        "".join(decoded).encode("utf-8")  # half of a surrogate pair could never be printed or saved
    except (UnicodeError, ValueError, SystemError):  # the last is NumPy's for code points beyond Unicode
        raise DataError(f"{path}: labels are not proper text; save them as UTF-8 text or whole numbers") from None
    texts = [text.strip() for text in decoded]
    for place, text in enumerate(texts):
        if not missing and text.lower() in ("", "nan"):
            which = private(f"labels[{place}] is missing ({shown(text)})", "a label is missing")
            raise DataError(f"{path}: {which}; fill it in or remove the sample")
    return texts
