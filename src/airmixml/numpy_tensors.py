"""Tensors by NumPy, for plans and ledgers where torch is not installed: the operations of drawing slots and of solving.

Radio, impairments and linear learners are written with torch, so that a run uses threads and GPUs. A plan draws few
slots, and NumPy is fast enough for them. ``stand_in`` gives these functions to ``import torch``, in a process without
it; numbers differ by rounding alone. What is not here raises the error of a missing torch, which a command turns into a
line that says how to install it. Names, arguments and their meaning are torch's.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from scipy import special as _special

from airmixml.devices import torch_is_missing

Shape = Any  # numbers one by one, or a tuple of them

int8, int16, int32, int64, uint8 = np.int8, np.int16, np.int32, np.int64, np.uint8
float32, float64, complex64, complex128 = np.float32, np.float64, np.complex64, np.complex128
finfo = np.finfo

_METHODS: Final = {
    "neg": np.negative, "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "pow": np.power,
    "matmul": np.matmul, "outer": np.outer, "maximum": np.maximum, "minimum": np.minimum, "atan2": np.arctan2,
    "bitwise_and": np.bitwise_and, "abs": np.abs, "round": np.round, "ceil": np.ceil, "floor": np.floor,
    "square": np.square, "sqrt": np.sqrt, "exp": np.exp, "expm1": np.expm1, "log": np.log, "log10": np.log10,
    "cos": np.cos, "sin": np.sin, "erfc": _special.erfc,
    "isfinite": np.isfinite, "isinf": np.isinf, "nan_to_num": np.nan_to_num,
}  # fmt: skip
_REDUCTIONS: Final = {
    "sum": np.sum, "mean": np.mean, "prod": np.prod, "any": np.any, "all": np.all, "amax": np.max, "amin": np.min,
    "argmax": np.argmax, "argmin": np.argmin, "cumsum": np.cumsum,
}  # fmt: skip


@dataclass(frozen=True)
class Device:
    """The processor, the one device that there is."""

    type: str = "cpu"
    index: int | None = None


CPU: Final = Device()


class Sorted(NamedTuple):
    """What sorting gives."""

    values: Tensor
    indices: Tensor


_Array: Any = np.ndarray  # whose methods have other arguments than a tensor's


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
        """Return the operation of that name; one that ends in a line writes its result into the tensor."""
        found = _METHODS.get(name.removesuffix("_"))
        if found is None:
            if name.startswith("_"):
                raise AttributeError(name)
            raise _missing()
        if not name.endswith("_"):
            return lambda *others, **how: from_numpy(found(self.numpy(), *others, **how))
        return lambda *others, **how: self._written(found(self.numpy(), *others, **how))

    def _written(self, values: Any) -> Tensor:
        self.numpy()[...] = values
        return self

    def numpy(self) -> Any:
        """Return the plain array, which shares its memory."""
        return np.ndarray.view(self, np.ndarray)

    def to(self, *what: Any, **how: Any) -> Tensor:
        """Return it in another type, or that of another tensor; devices change nothing."""
        kinds = [each.dtype if isinstance(each, Tensor) else each for each in (*what, *how.values())]
        kinds = [each for each in kinds if not isinstance(each, (Device, str, np.bool_, bool))]
        return from_numpy(self.numpy().astype(kinds[0], copy=False)) if kinds else self

    def double(self) -> Tensor:
        """Return it in float64."""
        return self.to(float64)

    def float(self) -> Tensor:
        """Return it in float32."""
        return self.to(float32)

    def long(self) -> Tensor:
        """Return it in int64."""
        return self.to(int64)

    def int(self) -> Tensor:
        """Return it in int32."""
        return self.to(int32)

    def bool(self) -> Tensor:
        """Return which numbers are not 0."""
        return self.to(np.bool_)

    def cpu(self) -> Tensor:
        """Return itself."""
        return self

    contiguous = cpu

    def clone(self) -> Tensor:
        """Return a copy."""
        return from_numpy(self.numpy().copy())

    def numel(self) -> Any:
        """Return how many numbers there are."""
        return self.size

    def dim(self) -> Any:
        """Return how many axes there are."""
        return self.ndim

    def view(self, *shape: Any) -> Any:
        """Return the same memory in another shape, or of another type as NumPy does."""
        if shape and isinstance(shape[0], (int, tuple, np.integer)):
            return self.reshape(*shape)
        return np.ndarray.view(self, *shape)

    def view_as(self, other: Tensor) -> Tensor:
        """Return it in the shape of another."""
        return from_numpy(self.reshape(other.shape))

    def flatten(self, start_dim: Any = 0, end_dim: Any = -1) -> Any:
        """Return it with these axes as one."""
        if not self.ndim:
            return self.reshape(1)
        last = end_dim % self.ndim + 1
        return self.reshape(*self.shape[:start_dim], math.prod(self.shape[start_dim:last]), *self.shape[last:])

    def transpose(self, *axes: Any) -> Any:
        """Return it with two axes exchanged."""
        return from_numpy(np.swapaxes(self.numpy(), *axes))

    def permute(self, *axes: Any) -> Tensor:
        """Return it with its axes in this order."""
        return from_numpy(np.transpose(self.numpy(), axes))

    def expand(self, *shape: Shape) -> Tensor:
        """Return it repeated along axes of length 1; -1 keeps an axis."""
        wanted = _shape(shape)
        own = (1,) * (len(wanted) - self.ndim) + self.shape
        given = [have if want == -1 else want for have, want in zip(own, wanted, strict=True)]
        return from_numpy(np.broadcast_to(self.numpy(), given))

    def repeat(self, *times: Any) -> Any:
        """Return copies side by side."""
        return from_numpy(np.tile(self.numpy(), _shape(times)))

    def repeat_interleave(self, times: Any) -> Tensor:
        """Return every number so many times."""
        return from_numpy(np.repeat(self.numpy(), times))

    def chunk(self, count: Any, dim: Any = 0) -> list[Tensor]:
        """Return equal parts."""
        return [from_numpy(part) for part in np.array_split(self.numpy(), count, axis=dim)]

    def unbind(self, dim: Any = 0) -> list[Tensor]:
        """Return the parts along an axis."""
        return [from_numpy(part) for part in np.moveaxis(self.numpy(), dim, 0)]

    def diagonal(self, offset: Any = 0, dim1: Any = 0, dim2: Any = 1) -> Any:
        """Return the diagonal, which shares its memory."""
        found = np.diagonal(self.numpy(), offset, dim1, dim2)
        found.flags.writeable = True
        return from_numpy(found)

    def max(self, dim: Any = None) -> Any:
        """Return the largest number."""
        return self._extreme(np.max, np.argmax, dim)

    def min(self, dim: Any = None) -> Any:
        """Return the smallest number."""
        return self._extreme(np.min, np.argmin, dim)

    def _extreme(self, value: Any, place: Any, dim: Any) -> Any:
        if dim is None:
            return from_numpy(value(self.numpy()))
        return Sorted(from_numpy(value(self.numpy(), axis=dim)), from_numpy(place(self.numpy(), axis=dim)))

    def clamp(self, min: Any = None, max: Any = None) -> Tensor:
        """Return the numbers within limits."""
        return from_numpy(np.clip(self.numpy(), min, max))

    def clamp_(self, min: Any = None, max: Any = None) -> Tensor:
        """Keep the numbers within limits."""
        return self._written(self.clamp(min, max))

    def relu_(self) -> Tensor:
        """Write 0 in place of what is negative."""
        return self.clamp_(min=0)

    def where(self, condition: Any, other: Any) -> Tensor:
        """Return its numbers where the condition holds, else those of another."""
        return where(condition, self, other)

    def round(self) -> Any:
        """Return the nearest whole numbers."""
        return from_numpy(np.round(self.numpy()))

    def rsqrt(self) -> Tensor:
        """Return one over the root."""
        return from_numpy(1.0 / np.sqrt(self.numpy()))

    def masked_fill_(self, where: Any, value: Any) -> Tensor:
        """Write one value where it is asked for."""
        self.numpy()[where] = value
        return self

    def masked_fill(self, where: Any, value: Any) -> Tensor:
        """Return it with one value where it is asked for."""
        return self.clone().masked_fill_(where, value)

    def scatter_(self, dim: Any, places: Any, values: Any) -> Tensor:
        """Write values at places along an axis."""
        np.put_along_axis(self.numpy(), np.asarray(places), np.asarray(values, dtype=self.dtype), axis=dim)
        return self

    def gather(self, dim: Any, places: Any) -> Tensor:
        """Return the numbers at places along an axis."""
        return from_numpy(np.take_along_axis(self.numpy(), np.asarray(places), axis=dim))

    def index_select(self, dim: Any, places: Any) -> Tensor:
        """Return the parts at places along an axis."""
        return from_numpy(np.take(self.numpy(), np.asarray(places), axis=dim))

    def index_add_(self, dim: Any, places: Any, values: Any, alpha: Any = 1) -> Tensor:
        """Add values at places along an axis."""
        at = (slice(None),) * dim + (np.asarray(places),)
        np.add.at(self.numpy(), at, alpha * np.asarray(values))
        return self

    def sort(self, dim: Any = -1, descending: Any = False, stable: Any = False) -> Any:
        """Return the numbers in order, and where each was."""
        key = -self.numpy() if descending else self.numpy()
        order = from_numpy(np.argsort(key, axis=dim, kind="stable"))
        return Sorted(self.gather(dim, order), order)

    def argsort(self, dim: Any = -1, descending: Any = False, stable: Any = False) -> Any:
        """Return where each number in order was."""
        return self.sort(dim, descending, stable).indices

    def topk(self, count: Any, dim: Any = -1, largest: Any = True) -> Sorted:
        """Return the first numbers in order, and where they were."""
        values, indices = self.sort(dim, largest)
        some = (Ellipsis, slice(count)) + (slice(None),) * (-1 - dim if dim < 0 else self.ndim - 1 - dim)
        return Sorted(values[some], indices[some])

    def nonzero(self) -> Any:
        """Return the places of numbers that are not 0; places x axes."""
        return from_numpy(np.argwhere(self.numpy()))

    def _new(self, make: Any, *arguments: Any, dtype: Any = None, **_: Any) -> Tensor:
        return from_numpy(make(*arguments, dtype=dtype or self.dtype))

    def new_zeros(self, *shape: Shape, **how: Any) -> Tensor:
        """Return zeros of its type."""
        return self._new(np.zeros, _shape(shape), **how)

    def new_full(self, shape: Shape, value: Any, **how: Any) -> Tensor:
        """Return equal numbers of its type."""
        return self._new(np.full, shape, value, **how)

    def new_tensor(self, values: Any, **how: Any) -> Tensor:
        """Return these numbers in its type."""
        return self._new(np.array, values, **how)


def _reduction(function: Any) -> Any:
    def reduced(self: Tensor, dim: Any = None, keepdim: Any = False, *, dtype: Any = None, **_numpy: Any) -> Tensor:
        how = {"keepdims": True} if keepdim else {}
        typed = {} if dtype is None else {"dtype": dtype}
        return from_numpy(function(self.numpy(), axis=dim, **how, **typed))

    return reduced


for _name, _function in _REDUCTIONS.items():
    setattr(Tensor, _name, _reduction(_function))


def _shape(given: Shape) -> Any:
    return tuple(given[0]) if len(given) == 1 and isinstance(given[0], (tuple, list)) else given


def _missing() -> ModuleNotFoundError:
    return ModuleNotFoundError("No module named 'torch'", name="torch")


def from_numpy(array: Any) -> Tensor:
    """Return an array as a tensor, which shares its memory."""
    made: Tensor = _Array.view(np.asarray(array), Tensor)
    return made


def as_tensor(values: Any, dtype: Any = None, **_: Any) -> Tensor:
    """Return values as a tensor; of numbers that are given one by one as torch has them."""
    if dtype is None and not isinstance(values, (np.ndarray, np.generic)):
        kind = np.asarray(values).dtype
        dtype = float32 if kind == float64 else None
    return from_numpy(np.asarray(values, dtype=dtype))


def tensor(values: Any, dtype: Any = None, **_: Any) -> Tensor:
    """Return a tensor of its own memory."""
    return as_tensor(values, dtype).clone()


def _making(make: Any) -> Any:
    def made(*shape: Shape, dtype: Any = float32, **_: Any) -> Tensor:
        return from_numpy(make(_shape(shape), dtype=dtype))

    return made


zeros, ones, empty = (_making(_make) for _make in (np.zeros, np.ones, np.empty))


def full(shape: Shape, value: Any, dtype: Any = None, **_: Any) -> Tensor:
    """Return equal numbers."""
    return from_numpy(np.full(shape, value, dtype=dtype or tensor(value).dtype))


def _like(make: Any) -> Any:
    def made(other: Tensor, *value: Any, dtype: Any = None, **_: Any) -> Tensor:
        return from_numpy(make(np.asarray(other), *value, dtype=dtype))

    return made


zeros_like, ones_like, empty_like, full_like = (
    _like(_make) for _make in (np.zeros_like, np.ones_like, np.empty_like, np.full_like)
)


def arange(*ends: Any, dtype: Any = None, **_: Any) -> Tensor:
    """Return numbers in equal steps."""
    found = np.arange(*ends, dtype=dtype)
    return from_numpy(found.astype(float32) if dtype is None and found.dtype == float64 else found)


def eye(size: Any, dtype: Any = float32, **_: Any) -> Tensor:
    """Return the unit matrix."""
    return from_numpy(np.eye(size, dtype=dtype))


def cat(parts: Any, dim: Any = 0) -> Tensor:
    """Return parts one after the other."""
    return from_numpy(np.concatenate([np.asarray(part) for part in parts], axis=dim))


def stack(parts: Any, dim: Any = 0) -> Tensor:
    """Return parts along a new axis."""
    return from_numpy(np.stack([np.asarray(part) for part in parts], axis=dim))


def vstack(parts: Any) -> Tensor:
    """Return rows one below the other."""
    return from_numpy(np.vstack([np.asarray(part) for part in parts]))


def split(values: Tensor, sizes: Any, dim: Any = 0) -> list[Tensor]:
    """Return parts of these sizes."""
    count = values.shape[dim]
    ends = range(sizes, count, sizes) if isinstance(sizes, int) else np.cumsum(sizes)[:-1]
    return [from_numpy(part) for part in np.split(values.numpy(), list(ends), axis=dim)]


def where(condition: Any, yes: Any, no: Any) -> Tensor:
    """Return one or the other."""
    return from_numpy(np.where(np.asarray(condition), yes, no))


def nonzero(values: Tensor) -> Tensor:
    """Return the places of numbers that are not 0; places x axes."""
    return from_numpy(np.argwhere(np.asarray(values)))


def mul(left: Any, right: Any, *, out: Any = None) -> Tensor:
    """Return the product of numbers, or write it."""
    return from_numpy(np.multiply(np.asarray(left), np.asarray(right), out=None if out is None else out.numpy()))


def complex_of(real: Any, imag: Any) -> Tensor:
    """Return complex numbers of two parts."""
    kind = complex64 if real.dtype == float32 else complex128
    return from_numpy((np.asarray(real) + 1j * np.asarray(imag)).astype(kind, copy=False))


def polar(radius: Any, angle: Any) -> Tensor:
    """Return complex numbers of radius and angle."""
    return complex_of(radius * np.cos(np.asarray(angle)), radius * np.sin(np.asarray(angle)))


def triu_indices(rows: Any, columns: Any, **_: Any) -> Tensor:
    """Return the places of an upper triangle; 2 x places."""
    return stack(np.triu_indices(rows, m=columns))


def searchsorted(ascending: Any, values: Any, *, right: Any = False) -> Tensor:
    """Return where values would stand."""
    return from_numpy(np.searchsorted(np.asarray(ascending), np.asarray(values), side="right" if right else "left"))


def bincount(values: Any, minlength: Any = 0) -> Tensor:
    """Return how often each number occurs."""
    return from_numpy(np.bincount(np.asarray(values), minlength=minlength))


def unique(values: Any, return_inverse: Any = False) -> Any:
    """Return different numbers, and which each is."""
    found = np.unique(np.asarray(values), return_inverse=return_inverse)
    return tuple(from_numpy(each) for each in found) if return_inverse else from_numpy(found)


def aminmax(values: Tensor) -> tuple[Tensor, Tensor]:
    """Return the smallest and the largest number."""
    return values.min(), values.max()


def repeat_interleave(times: Tensor) -> Tensor:
    """Return every place so many times as it says."""
    return arange(len(times)).repeat_interleave(times)


class special:
    """Of physics."""

    i0e, i1e = (
        staticmethod(lambda values, function=function: from_numpy(function(np.asarray(values))))
        for function in (_special.i0e, _special.i1e)
    )


class linalg:
    """Of matrices."""

    @staticmethod
    def eigh(matrix: Any) -> tuple[Tensor, Tensor]:
        """Return eigenvalues and eigenvectors."""
        values, vectors = np.linalg.eigh(np.asarray(matrix))
        return from_numpy(values), from_numpy(vectors)

    @staticmethod
    def vector_norm(values: Any, dim: Any = None, keepdim: Any = False) -> Tensor:
        """Return lengths."""
        return from_numpy(np.linalg.norm(np.asarray(values), axis=dim, keepdims=keepdim))


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
    if name in _BUILTINS:
        return _BUILTINS[name]
    function = _METHODS.get(name)
    if function is not None:
        return lambda *values, **how: from_numpy(function(*map(np.asarray, values), **how))
    if name.startswith("__"):
        raise AttributeError(name)
    raise _missing()


_BUILTINS: Final = {"bool": np.bool_, "complex": complex_of}  # names that this file needs as Python has them


def stand_in() -> None:
    """Let ``import torch`` find this module, where torch is not installed."""
    if torch_is_missing():
        sys.modules["torch"] = sys.modules[__name__]
