"""A registry: named things of one kind, of this package, of other packages, and given in Python.

Names are known without importing anything; a thing is imported when it is first asked for. So are names of a package
(``import_late``): torch takes seconds, and most commands never need it.
"""

import hashlib
import io
import pickle
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field
from functools import cache, cached_property, lru_cache
from importlib import import_module
from traceback import walk_tb
from types import CodeType, FunctionType, MemberDescriptorType
from typing import TYPE_CHECKING, Any, Final

from airmixml.messages import (
    AirMixError,
    PluginError,
    UnknownObjectError,
    did_you_mean,
    is_out_of_memory,
    private,
    reason,
    shown,
)

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


_GIVEN: Final = "object"  # the word before the name of an object that was given in Python
NOT_HERE: Final = (
    "is an object that was given in Python, and is not known here; give it again, with the same code and content "
    "(load_model takes it as encoder= or in objects=), or put its class into a module that other processes can import"
)
"""What is said of such a name in a process that does not have the object."""
_STABLE: Final = frozenset({"airmixml", "numpy", "scipy", "torch", "sklearn", *sys.stdlib_module_names})
_OF_NO_CONTENT: Final = frozenset({"__dict__", "__weakref__", "__module__", "__qualname__", "__doc__", "_abc_impl"}) | {
    "__dataclass_fields__",  # what they say is in __init__ too
    "__dataclass_params__",
}
_BY_VALUE: Final = (int, float, str, bytes, tuple, list, dict, type(None), type, FunctionType)


@lru_cache(maxsize=1)
def _entry_points(_path: tuple[str, ...]) -> Any:
    """Return those of all packages on a path: to look for them takes as long as a small run, so once for all kinds."""
    from importlib.metadata import entry_points  # here: a worker needs none of other packages

    return entry_points()


def places_in(package: str, *modules: str) -> dict[str, str]:
    """Return where things live, of lines "module: name name=Attribute"; an attribute not said is the name, as NAME."""
    places = {}
    for line in modules:
        module, _, words = line.partition(": ")
        for word in words.split():
            name, _, attribute = word.partition("=")
            places[name] = f"{package}.{module}:{attribute or name.upper().replace('-', '_')}"
    return places


@dataclass(eq=False)
class Registry:
    """Named things of one kind."""

    kind: str  # what one of them is called in messages
    group: str  # entry-point group through which other packages add to it
    key: str  # what a user sets to choose one, for messages
    _: KW_ONLY
    base: str  # the class to inherit from, for messages
    needs: tuple[str, ...]  # attributes that every one of them must have
    places: Mapping[str, str]  # where each of ours lives, as module:attribute, by name
    objects: bool = True  # whether they are objects; a class then stands for an object of it
    made_by: str = ""  # the method by which the package makes an object of a class for each scenario
    files: Mapping[str, str] = field(default_factory=dict)  # what makes one of a file, by the word before the path
    wraps: Mapping[str, str] = field(default_factory=dict)  # what makes one of another library's object, by its class
    loaded: dict[str, Any] = field(default_factory=dict, init=False)  # those that were asked for already, by name

    def __post_init__(self) -> None:
        self.objects = self.objects and not self.made_by
        _REGISTRIES.append(self)

    @property
    def own(self) -> tuple[str, ...]:
        """Names of those that come with the package."""
        return tuple(self.places)

    @cached_property
    def plugins(self) -> "dict[str, EntryPoint]":
        """Those of other installed packages by name; our names stay ours (``airmix plugins`` reports who wants one)."""
        found = _entry_points(tuple(sys.path)).select(group=self.group)
        points = sorted(found, key=lambda each: (each.name, each.value))
        return {point.name: point for point in points if point.name not in self.places}

    @property
    def names(self) -> tuple[str, ...]:
        """All names, ours first."""
        return (*self.places, *self.plugins)

    @property
    def forms(self) -> tuple[str, ...]:
        """How a file is named instead: a word, a colon and the path."""
        return tuple(f"{word}:FILE" for word in self.files)

    def file_of(self, name: str) -> str | None:
        """Return the path of the file that a name stands for, or None."""
        word, _, path = name.partition(":")
        return path if word in self.files and path else None

    def add(self, thing: Any, key: str = "") -> str:
        """Take an object that is given in Python for a key, and return the name by which it goes in this process.

        The name holds a digest of its content and code: a copy of it, here or in another process, has the same name.
        """
        named = f"{key or self.key} = {shown(thing)}"
        try:
            if self.objects and isinstance(thing, type):
                thing = thing()
            if place := self._wrapper(thing):
                thing = _at(place)(thing)
        except Exception as problem:  # whatever a user's class does
            raise PluginError(f"{named}: makes no {self.kind} ({reason(problem)}); give an object of it") from problem
        self._check(thing, named)
        if (taken := getattr(thing, "name", None)) in self.places:  # results would show it as ours
            raise PluginError(f"{named}: its name {shown(taken)} is that of a built-in {self.kind}; give it another")
        name = f"{_GIVEN}:{(thing if isinstance(thing, type) else type(thing)).__name__}-{fingerprint(thing)}"
        self.loaded[name] = thing
        return name

    def given(self, name: object) -> Any:
        """Return the object that was given in Python and goes by that name; None if there is none."""
        return self.loaded.get(name) if isinstance(name, str) and name.startswith(f"{_GIVEN}:") else None

    def fits(self, thing: object) -> bool:
        """Return whether something has all that one of them must have."""
        return not self._lacks(thing) or bool(self._wrapper(thing))

    def _lacks(self, thing: object) -> list[str]:
        return [attribute for attribute in self.needs if not hasattr(thing, attribute)]

    def names_with(self, name: str) -> tuple[str, ...]:
        """Return all names, and that of an object that was given in Python if it is not among them."""
        return tuple(dict.fromkeys((*self.names, name)))

    def make(self, name: str, *arguments: Any) -> Any:
        """Return what the thing of that name makes: an object of a class; an object that was given is it already."""
        thing = self.load(name)
        return thing(*arguments) if isinstance(thing, type) else thing

    def accepts(self, thing: object) -> bool:
        """Return whether something seems to be meant as one of them: an object with some of what each has."""
        own = (thing if isinstance(thing, type) else type(thing)).__module__ != "builtins"  # numbers have "real"
        return own and (len(self._lacks(thing)) < len(self.needs) or bool(self._wrapper(thing)))

    def _wrapper(self, thing: object) -> str:
        """Return what makes one of them of an object of another library; empty: nothing does, or it is one already."""
        if not self._lacks(thing):
            return ""
        bases = (f"{base.__module__}.{base.__qualname__}" for base in type(thing).__mro__)
        return next((self.wraps[base] for base in bases if base in self.wraps), "")

    def __contains__(self, name: object) -> bool:
        if name in self.places or name in self.plugins:
            return True
        return self.given(name) is not None or (isinstance(name, str) and self.file_of(name) is not None)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def load(self, name: str) -> Any:
        """Return the thing of that name, or raise an error that names the nearest one."""
        if name not in self.loaded:
            if name not in self:
                if name.startswith(f"{_GIVEN}:"):
                    raise UnknownObjectError(f"{self.key} = {shown(name)}: {NOT_HERE}")
                allowed = f"{', '.join((*self.names, *self.forms))}{did_you_mean(name, self.names)}"
                raise PluginError(f"{self.key} = {shown(name)}: must be one of {allowed}")
            self.loaded[name] = self._import(name)
        return self.loaded[name]

    def _import(self, name: str) -> Any:
        path = self.file_of(name)
        place = self.places.get(name) if path is None else self.files[name.partition(":")[0]]
        if place is not None:
            thing = _at(place)
            if path is not None:
                return thing(path)
            return thing() if self.objects and isinstance(thing, type) else thing
        point = self.plugins[name]
        package = _package(point)
        for other in _entry_points(tuple(sys.path)).select(group=self.group, name=name):
            if other.value != point.value:
                both = " and ".join(sorted((package, _package(other))))
                raise PluginError(f"{self.kind} {shown(name)}: both {both} bring one of that name; uninstall one")
        try:
            thing = point.load()
            if self.objects and isinstance(thing, type):
                thing = thing()
        except (Exception, SystemExit) as problem:  # whatever another package's module does at import
            raise PluginError(
                f"{self.kind} {shown(name)} of {package}: cannot be loaded ({type(problem).__name__}: "
                f"{reason(problem)}); mend or uninstall that package"
            ) from problem
        self._check(thing, f"{self.kind} {shown(name)} of {package}")
        return thing

    def _check(self, thing: Any, named: str) -> None:
        if missing := self._lacks(thing):
            raise PluginError(
                f"{named}: has no {', '.join(missing)}; define or inherit it from {self.base} (docs/extending.md)"
            )
        if not self.made_by or isinstance(thing, type):
            return
        maker = getattr(thing, self.made_by, None)  # an object's own, or one that its class makes others by
        if maker is None or isinstance(getattr(maker, "__self__", None), type):
            raise PluginError(
                f"{named}: the package makes an object of its class for each scenario; give the class "
                f"{type(thing).__name__}{'' if maker is None else f', or an object whose {self.made_by} returns it'}"
            )


_REGISTRIES: Final[list[Registry]] = []  # all that were made


def add_given(thing: Any) -> None:
    """Make an object that was given in Python known here, in every registry that it fits."""
    fitting = [registry for registry in _REGISTRIES if registry.fits(thing)]
    if not fitting:
        kinds = ", ".join(registry.kind for registry in _REGISTRIES)
        raise PluginError(f"objects = {shown(thing)}: lacks what one of these must have: {kinds}; docs/extending.md")
    for registry in fitting:
        registry.add(thing)


@contextmanager
def naming_objects() -> Iterator[None]:
    """Say in one line which object of a user, or of another package, raised an error, and in which method."""
    try:
        yield
    except Exception as problem:
        if isinstance(problem, AirMixError) or is_out_of_memory(problem) or not (failed := _failed_in(problem)):
            raise
        why = private(f" ({type(problem).__name__}: {reason(problem)})")
        raise PluginError(f"{failed} fails{why}; correct it, or its values") from problem


def _failed_in(problem: Exception) -> str:
    """Return the key, class and method of the object in whose code an error was raised; empty for none."""
    keys = {
        thing if isinstance(thing, type) else type(thing): registry.key
        for registry in _REGISTRIES
        for name, thing in registry.loaded.items()
        if name not in registry.places
    }
    failed = ""
    for frame, _ in walk_tb(problem.__traceback__):
        owner = frame.f_locals.get("self", frame.f_locals.get("cls"))
        kind = owner if isinstance(owner, type) else type(owner)
        if kind in keys and not frame.f_globals.get("__name__", "").startswith("airmixml."):
            failed = f"{keys[kind]} = {kind.__name__}: its {frame.f_code.co_name}"
    return failed


def _at(place: str) -> Any:
    module, _, attribute = place.partition(":")
    return getattr(import_module(module), attribute)


def _package(point: "EntryPoint") -> str:
    return "an unknown package" if point.dist is None else f"{point.dist.name} {point.dist.version}"


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

    def reducer_override(self, thing: Any) -> Any:
        if hasattr(thing, "detach") and hasattr(thing, "numpy"):  # a tensor's own pickle says where in memory it lies
            return (tuple, (thing.detach().cpu().numpy(),))
        return NotImplemented


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


def import_late(package: str) -> Callable[[str], Any]:
    """Return a ``__getattr__`` for ``package``, which imports a name as its ``if TYPE_CHECKING`` says."""

    @cache
    def modules() -> dict[str, str | None]:
        import ast  # here: most processes ask for no such name

        loader: Any = sys.modules[package].__loader__
        branches = (node for node in ast.parse(loader.get_source(package)).body if isinstance(node, ast.If))
        imports = (node for branch in branches for node in branch.body if isinstance(node, ast.ImportFrom))
        return {name.name: node.module for node in imports for name in node.names}

    def get(name: str) -> Any:
        if module := modules().get(name):
            return getattr(import_module(module), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return get
