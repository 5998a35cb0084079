"""Digests of Python objects that tell them apart by what they hold and by the code of their classes."""

import hashlib
import io
import pickle
import sys
from types import CodeType, FunctionType, MemberDescriptorType
from typing import Any, Final

_STABLE: Final = frozenset({"airmixml", "numpy", "scipy", "torch", "sklearn", *sys.stdlib_module_names})
_OF_NO_CONTENT: Final = frozenset({"__dict__", "__weakref__", "__module__", "__qualname__", "__doc__", "_abc_impl"}) | {
    "__dataclass_fields__",  # what they say is in __init__ too
    "__dataclass_params__",
}
_BY_VALUE: Final = (int, float, str, bytes, tuple, list, dict, type(None), type, FunctionType)


def fingerprint(thing: object) -> str:
    """Return twelve letters that follow from an object's content and from the code of the classes it is made of.

    A pickle alone names classes, so that a class written anew in a notebook would count as the old one. Python's own
    modules and those of large libraries count by name.
    """
    buffer = io.BytesIO()
    try:
        _Digested(buffer).dump(thing)
    except Exception:  # whatever a user's object does; it is then told from others by its place in memory
        return f"{id(thing):x}"
    return hashlib.sha256(buffer.getvalue()).hexdigest()[:12]


class _Digested(pickle.Pickler):
    """Writes classes and functions by their code where others would write their names."""

    def __init__(self, buffer: io.BytesIO) -> None:
        super().__init__(buffer, protocol=5)
        self.fast = True  # a copy may share less of itself than the first did
        self._begun: set[int] = set()

    def persistent_id(self, thing: Any) -> Any:
        if not isinstance(thing, (type, FunctionType)):
            return None
        name = f"{thing.__module__}.{thing.__qualname__}"
        if id(thing) in self._begun or name.partition(".")[0] in _STABLE:
            return name
        self._begun.add(id(thing))
        return (name, _of_class(thing) if isinstance(thing, type) else _of_function(thing))


def _of_class(kind: type) -> tuple[Any, ...]:
    held = sorted(vars(kind).items())
    return (kind.__bases__, tuple((name, _plain(value)) for name, value in held if name not in _OF_NO_CONTENT))


def _of_function(function: FunctionType) -> tuple[Any, ...]:
    """Return the code of a function, and what it finds outside of itself: defaults, closure, globals of its module."""
    names = _names_in(function.__code__)
    found = {name: function.__globals__[name] for name in sorted(names) if name in function.__globals__}
    outside = {name: each for name, each in found.items() if isinstance(each, _BY_VALUE)}
    cells = tuple(cell.cell_contents for cell in function.__closure__ or ())
    return (_of_code(function.__code__), function.__defaults__, function.__kwdefaults__, cells, outside)


def _of_code(code: CodeType) -> tuple[Any, ...]:
    constants = tuple(_of_code(each) if isinstance(each, CodeType) else _ordered(each) for each in code.co_consts)
    return (code.co_code, code.co_names, code.co_varnames, constants)


def _ordered(value: Any) -> Any:
    """Return sets in an order that is the same in every process."""
    return sorted(map(repr, value)) if isinstance(value, (set, frozenset)) else repr(value)


def _names_in(code: CodeType) -> set[str]:
    nested = (_names_in(each) for each in code.co_consts if isinstance(each, CodeType))
    return set(code.co_names).union(*nested)


def _plain(value: Any) -> Any:
    """Return what is digested of an attribute of a class: the functions in it, where it wraps some."""
    if isinstance(value, (classmethod, staticmethod)):
        return value.__func__
    if isinstance(value, property):
        return (value.fget, value.fset)
    if isinstance(value, (set, frozenset)):
        return _ordered(value)
    return type(value).__qualname__ if isinstance(value, MemberDescriptorType) else value
