"""Tensors by NumPy, for plans and ledgers where torch is not installed: the operations of drawing slots and of solving.

Radio, impairments and linear learners are written with torch, so that a run uses threads and GPUs. A plan draws few
slots, and NumPy is fast enough for them. ``stand_in`` gives these functions to ``import torch``, in a process without
it; numbers differ by rounding alone. What is not here raises the error of a missing torch, which a command turns into a
line that says how to install it. Names, arguments and their meaning are torch's.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

import numpy as np
from scipy import special as _special

from airmixml.devices import torch_is_missing

int8, int16, int32, int64, uint8 = np.int8, np.int16, np.int32, np.int64, np.uint8
float32, float64, complex64, complex128 = np.float32, np.float64, np.complex64, np.complex128
finfo = np.finfo

_Array: Any = np.ndarray  # whose methods have other arguments than a tensor's


@dataclass(frozen=True)
class Device:
    """The processor, the one device that there is."""

    type: str = "cpu"
    index: int | None = None


CPU: Final = Device()


class Sorted(NamedTuple):
    """What sorting gives."""

    values: Any
    indices: Any


class Tensor(_Array):  # type: ignore[misc]
    """An array with the methods of a tensor; a number is an array without axes."""

    device = CPU
    is_cuda = False

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: Any = False) -> Tensor:
        return from_numpy(array)

    def __getitem__(self, key: Any) -> Tensor:
        return from_numpy(super().__getitem__(key))

    def __iter__(self) -> Iterator[Tensor]:
        return (self[number] for number in range(len(self)))

    def __matmul__(self, other: Any) -> Tensor:
        return from_numpy(np.matmul(self.numpy(), np.asarray(other)))

    def __getattr__(self, name: str) -> Any:
        """Write the result of the operation of that name, which ends in a line, into the tensor."""
        found = _METHODS.get(name.removesuffix("_"))
        if name.startswith("__"):
            raise AttributeError(name)
        if found is None:
            raise _missing()

        def write(*others: Any, **how: Any) -> Tensor:
            self.numpy()[...] = found(self.numpy(), *others, **how)
            return self

        return write

    def numpy(self) -> Any:
        """Return the plain array, which shares its memory."""
        return np.ndarray.view(self, np.ndarray)

    def to(self, *what: Any, **how: Any) -> Tensor:
        """Return it in another type, or that of another tensor; devices change nothing."""
        kinds = [each.dtype if isinstance(each, Tensor) else each for each in (*what, *how.values())]
        kinds = [each for each in kinds if not isinstance(each, (Device, str, np.bool_, bool))]
        return from_numpy(self.numpy().astype(kinds[0], copy=False)) if kinds else self

    def cpu(self) -> Tensor:
        """Return itself."""
        return self

    contiguous = cpu

    def view(self, *shape: Any) -> Any:
        """Return the same memory in another shape, or of another type as NumPy does."""
        if shape and isinstance(shape[0], (int, tuple, np.integer)):
            return self.reshape(*shape)
        return np.ndarray.view(self, *shape)


def _missing() -> ModuleNotFoundError:
    return ModuleNotFoundError("No module named 'torch'", name="torch")


def from_numpy(array: Any) -> Tensor:
    """Return an array as a tensor, which shares its memory."""
    made: Tensor = _Array.view(np.asarray(array), Tensor)
    return made


def _tensors(found: Any) -> Any:
    """Return an array as a tensor, or each of several."""
    if isinstance(found, list):
        return [from_numpy(each) for each in found]
    if not isinstance(found, tuple):
        return from_numpy(found)
    tensors = map(from_numpy, found)
    return Sorted(*tensors) if isinstance(found, Sorted) else tuple(tensors)


def _shape(given: Any) -> Any:
    """Return the shape that numbers one by one, or a tuple of them, say."""
    return tuple(given[0]) if len(given) == 1 and isinstance(given[0], (tuple, list)) else given


def _reduced(function: Any) -> Any:
    def reduced(values: Any, dim: Any = None, keepdim: Any = False, *, dtype: Any = None, **_numpy: Any) -> Any:
        how = {"keepdims": True} if keepdim else {}
        return function(values, axis=dim, **how, **({} if dtype is None else {"dtype": dtype}))

    return reduced


def _extreme(value: Any, place: Any) -> Any:
    def extreme(values: Any, dim: Any = None) -> Any:
        return value(values) if dim is None else Sorted(value(values, axis=dim), place(values, axis=dim))

    return extreme


def _method(function: Callable[..., Any]) -> Any:
    return lambda self, *others, **how: _tensors(function(self.numpy(), *others, **how))


def _cast(kind: Any) -> Any:
    return lambda values: values.astype(kind, copy=False)


def _expand(values: Any, *shape: Any) -> Any:
    """Return it repeated along axes of length 1; -1 keeps an axis."""
    wanted = _shape(shape)
    own = (1,) * (len(wanted) - values.ndim) + values.shape
    return np.broadcast_to(values, [have if want == -1 else want for have, want in zip(own, wanted, strict=True)])


def _flatten(values: Any, start_dim: Any = 0, end_dim: Any = -1) -> Any:
    if not values.ndim:
        return values.reshape(1)
    last = end_dim % values.ndim + 1
    return values.reshape(*values.shape[:start_dim], math.prod(values.shape[start_dim:last]), *values.shape[last:])


def _diagonal(values: Any, offset: Any = 0, dim1: Any = 0, dim2: Any = 1) -> Any:
    found = np.diagonal(values, offset, dim1, dim2)
    found.flags.writeable = True
    return found


def _masked_fill(values: Any, where: Any, value: Any) -> Any:
    return np.where(where, np.asarray(value, dtype=values.dtype), values)


def _scatter(values: Any, dim: Any, places: Any, others: Any) -> Any:
    found = values.copy()
    np.put_along_axis(found, np.asarray(places), np.asarray(others, dtype=values.dtype), axis=dim)
    return found


def _index_add(values: Any, dim: Any, places: Any, others: Any, alpha: Any = 1) -> Any:
    found = values.copy()
    np.add.at(found, (slice(None),) * dim + (np.asarray(places),), alpha * np.asarray(others))
    return found


def _sort(values: Any, dim: Any = -1, descending: Any = False, stable: Any = False) -> Sorted:
    order = np.argsort(-values if descending else values, axis=dim, kind="stable")
    return Sorted(np.take_along_axis(values, order, axis=dim), order)


def _topk(values: Any, count: Any, dim: Any = -1, largest: Any = True) -> Sorted:
    some = (Ellipsis, slice(count)) + (slice(None),) * (-1 - dim if dim < 0 else values.ndim - 1 - dim)
    return Sorted(*(each[some] for each in _sort(values, dim, largest)))


def _new(make: Any) -> Any:
    return lambda own, shape, *value, dtype=None, **_: make(shape, *value, dtype=dtype or own.dtype)


_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {  # of one array and what else they take; methods of a tensor too
    "neg": np.negative, "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "pow": np.power,
    "matmul": np.matmul, "outer": np.outer, "maximum": np.maximum, "minimum": np.minimum, "atan2": np.arctan2,
    "bitwise_and": np.bitwise_and, "abs": np.abs, "ceil": np.ceil, "floor": np.floor, "square": np.square,
    "sqrt": np.sqrt, "exp": np.exp, "expm1": np.expm1, "log": np.log, "log10": np.log10, "cos": np.cos, "sin": np.sin,
    "isfinite": np.isfinite, "isinf": np.isinf, "nan_to_num": np.nan_to_num, "erfc": _special.erfc,
    "sum": _reduced(np.sum), "mean": _reduced(np.mean), "prod": _reduced(np.prod), "cumsum": _reduced(np.cumsum),
    "any": _reduced(np.any), "all": _reduced(np.all), "amax": _reduced(np.max), "amin": _reduced(np.min),
    "argmax": _reduced(np.argmax), "argmin": _reduced(np.argmin), "unique": np.unique, "nonzero": np.argwhere,
    "flatten": _flatten, "transpose": np.swapaxes, "diagonal": _diagonal, "clone": np.array, "sort": _sort,
    "topk": _topk, "scatter": _scatter, "index_add": _index_add, "masked_fill": _masked_fill,
    "max": _extreme(np.max, np.argmax),
    "min": _extreme(np.min, np.argmin),
    "round": lambda values, **_: np.round(values),
    "rsqrt": lambda values: 1.0 / np.sqrt(values),
    "argsort": lambda *values, **how: _sort(*values, **how).indices,
    "clamp": lambda values, min=None, max=None: np.clip(values, min, max),
    "relu": lambda values: np.maximum(values, 0),
    "gather": lambda values, dim, places: np.take_along_axis(values, np.asarray(places), axis=dim),
    "index_select": lambda values, dim, places: np.take(values, np.asarray(places), axis=dim),
}  # fmt: skip
_METHODS: Final[dict[str, Callable[..., Any]]] = _FUNCTIONS | {  # as a tensor alone has them
    "double": _cast(float64),
    "float": _cast(float32),
    "long": _cast(int64),
    "int": _cast(int32),
    "bool": _cast(np.bool_),
    "expand": _expand,
    "view_as": lambda values, other: values.reshape(other.shape),
    "permute": lambda values, *axes: np.transpose(values, axes),
    "unbind": lambda values, dim=0: list(np.moveaxis(values, dim, 0)),
    "chunk": lambda values, count, dim=0: np.array_split(values, count, axis=dim),
    "repeat": lambda values, *times: np.tile(values, _shape(times)),
    "repeat_interleave": np.repeat,
    "where": lambda values, condition, other: np.where(np.asarray(condition), values, other),
    "new_zeros": lambda own, *shape, **how: _new(np.zeros)(own, _shape(shape), **how),
    "new_full": _new(np.full),
    "new_tensor": _new(np.array),
}
for _name, _function in _METHODS.items():
    setattr(Tensor, _name, _method(_function))
Tensor.numel = lambda self: self.size
Tensor.dim = lambda self: self.ndim


def _as_tensor(values: Any, dtype: Any = None, **_: Any) -> Any:
    """Return values as a tensor; of numbers that are given one by one as torch has them."""
    if dtype is None and not isinstance(values, (np.ndarray, np.generic)):
        dtype = float32 if np.asarray(values).dtype == float64 else None
    return np.asarray(values, dtype=dtype)


def _making(make: Any) -> Any:
    return lambda *shape, dtype=float32, **_: make(_shape(shape), dtype=dtype)


def _like(make: Any) -> Any:
    return lambda other, *value, dtype=None, **_: make(other, *value, dtype=dtype)


def _arange(*ends: Any, dtype: Any = None, **_: Any) -> Any:
    found = np.arange(*ends, dtype=dtype)
    return found.astype(float32) if dtype is None and found.dtype == float64 else found


def _split(values: Any, sizes: Any, dim: Any = 0) -> Any:
    ends = range(sizes, values.shape[dim], sizes) if isinstance(sizes, int) else np.cumsum(sizes)[:-1]
    return np.split(values, list(ends), axis=dim)


def _complex(real: Any, imag: Any) -> Any:
    return (real + 1j * imag).astype(complex64 if real.dtype == float32 else complex128, copy=False)


_OF_MODULE: Final[dict[str, Callable[..., Any]]] = _FUNCTIONS | {  # as ``torch`` has them
    "as_tensor": _as_tensor,
    "tensor": lambda values, dtype=None, **_: _as_tensor(values, dtype).copy(),
    "zeros": _making(np.zeros),
    "ones": _making(np.ones),
    "empty": _making(np.empty),
    "full": lambda shape, value, dtype=None, **_: np.full(shape, value, dtype=dtype or _as_tensor(value).dtype),
    "zeros_like": _like(np.zeros_like),
    "ones_like": _like(np.ones_like),
    "empty_like": _like(np.empty_like),
    "full_like": _like(np.full_like),
    "arange": _arange,
    "eye": lambda size, dtype=float32, **_: np.eye(size, dtype=dtype),
    "cat": lambda parts, dim=0: np.concatenate([np.asarray(part) for part in parts], axis=dim),
    "stack": lambda parts, dim=0: np.stack([np.asarray(part) for part in parts], axis=dim),
    "vstack": lambda parts: np.vstack([np.asarray(part) for part in parts]),
    "split": _split,
    "where": np.where,
    "mul": lambda left, right, out=None: np.multiply(left, right, out=None if out is None else out.numpy()),
    "complex": _complex,
    "polar": lambda radius, angle: _complex(radius * np.cos(angle), radius * np.sin(angle)),
    "triu_indices": lambda rows, columns, **_: np.stack(np.triu_indices(rows, m=columns)),
    "searchsorted": lambda ascending, values, right=False: np.searchsorted(
        ascending, values, side="right" if right else "left"
    ),
    "bincount": np.bincount,
    "aminmax": lambda values: (values.min(), values.max()),
    "repeat_interleave": lambda times: np.repeat(np.arange(len(times)), times),
}


def _of_module(function: Callable[..., Any]) -> Any:
    def called(*values: Any, **how: Any) -> Any:
        return _tensors(function(*(each.numpy() if isinstance(each, Tensor) else each for each in values), **how))

    return called


special = SimpleNamespace(i0e=_of_module(_special.i0e), i1e=_of_module(_special.i1e))
linalg = SimpleNamespace(
    eigh=_of_module(np.linalg.eigh),
    vector_norm=_of_module(lambda values, dim=None, keepdim=False: np.linalg.norm(values, axis=dim, keepdims=keepdim)),
)


def device(name: Any = "cpu") -> Device:
    """Return the processor; there is no other device."""
    if str(name) != "cpu" and name != CPU:
        raise _missing()
    return CPU


def get_num_threads() -> int:
    """Return that NumPy's operations use one thread each."""
    return 1


def set_num_threads(count: Any) -> None:
    """Do nothing."""


def __getattr__(name: str) -> Any:
    if name == "bool":  # a name that this file needs as Python has it
        return np.bool_
    if name in _OF_MODULE:
        return _of_module(_OF_MODULE[name])
    if name.startswith("__"):
        raise AttributeError(name)
    raise _missing()


def stand_in() -> None:
    """Let ``import torch`` find this module, where torch is not installed."""
    if torch_is_missing():
        sys.modules["torch"] = sys.modules[__name__]
