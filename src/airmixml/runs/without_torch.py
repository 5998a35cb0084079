"""The linear model of a run folder, read and used where torch is not installed: NumPy does what one layer needs."""

from __future__ import annotations

import io
import pickle
import zipfile
from collections import OrderedDict
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

from airmixml.arrays import Doubles
from airmixml.data import LabelCode, Signs
from airmixml.data.labels import Bounded
from airmixml.devices import needs_torch
from airmixml.errors import AirMixError
from airmixml.scenario.automatic import LOGISTIC, NEVER_CERTAIN, SOFTMAX, ScoreLink

_TYPES: Final = {"FloatStorage": "<f4", "DoubleStorage": "<f8", "LongStorage": "<i8"}
_PARTS: Final = ("0.bias", "0.weight")


class LinearNetwork:
    """One layer: scores are inputs times weights (outputs x inputs) plus biases (outputs)."""

    def __init__(self, parameters: dict[str, NDArray[Any]]) -> None:
        if sorted(parameters) != list(_PARTS):
            raise AirMixError(needs_torch("a model that is not linear"))
        self._biases, self._weights = (parameters[name].astype(np.float64) for name in _PARTS)

    def double(self) -> LinearNetwork:
        """Return itself: it computes in float64."""
        return self

    def outputs(self, inputs: NDArray[Any], link: ScoreLink, code: LabelCode | None) -> Doubles:
        """Return probabilities or targets of encoded inputs, as ``edge.predicted`` does; samples x outputs."""
        scores = inputs.astype(np.float64) @ self._weights.T + self._biases
        if link is LOGISTIC:
            return np.asarray(np.clip(expit(scores), NEVER_CERTAIN, 1.0 - NEVER_CERTAIN))
        if link is SOFTMAX:
            return np.asarray(softmax(scores, axis=1))
        if isinstance(code, Signs):
            likely = (1.0 + scores * np.sqrt(code.count)) / 2.0
            return np.asarray(np.clip(likely, NEVER_CERTAIN, 1.0 - NEVER_CERTAIN))
        assert isinstance(code, Bounded)
        lower, upper = np.array(code.lower), np.array(code.upper)
        unit = np.clip(scores * np.sqrt(len(lower)), -1.0, 1.0)
        return np.asarray(lower + (unit + 1.0) / 2.0 * (upper - lower))


def read_archive(file: Any) -> Any:
    """Return what ``torch.save`` wrote, arrays in place of tensors; nothing else can be in it."""
    with zipfile.ZipFile(io.BytesIO(file.read())) as archive:
        (content,) = (name for name in archive.namelist() if name.endswith("/data.pkl"))
        return _Values(archive, content.removesuffix("data.pkl")).load()


class _Values(pickle.Unpickler):
    """Makes numbers, texts, lists and arrays, and refuses everything else: a file may be a stranger's."""

    def __init__(self, archive: zipfile.ZipFile, folder: str) -> None:
        super().__init__(io.BytesIO(archive.read(f"{folder}data.pkl")))
        self._archive, self._folder = archive, folder

    def find_class(self, module: str, name: str) -> Any:
        """Return one of the four names that a model needs."""
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return _rebuilt
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        if module == "torch" and name in _TYPES:
            return _TYPES[name]
        raise pickle.UnpicklingError(f"{module}.{name} is no part of a model")

    def persistent_load(self, pid: Any) -> NDArray[Any]:
        """Return the numbers of a tensor, which lie in a file of the archive."""
        _, kind, key, *_ = pid
        return np.frombuffer(self._archive.read(f"{self._folder}data/{key}"), dtype=kind)


def _rebuilt(numbers: NDArray[Any], first: int, shape: tuple[int, ...], strides: Any, *_: Any) -> NDArray[Any]:
    rows = np.zeros(shape, dtype=np.int64)
    for axis, (size, stride) in enumerate(zip(shape, strides, strict=True)):
        rows += np.arange(size).reshape(-1, *[1] * (len(shape) - axis - 1)) * stride
    return numbers[first + rows]
