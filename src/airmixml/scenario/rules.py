"""What a value of a scenario key must be: one rule object per key, checked whenever a scenario is made."""

import math
import numbers
import pickle
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields
from typing import Any, Final

from airmixml.messages import ScenarioError, UnknownObjectError, did_you_mean, shown
from airmixml.registries import REGISTRIES
from airmixml.registry import NOT_HERE, Registry

AUTO: Final = "auto"
"""What a key says that leaves its choice to the rest of the scenario."""


class Rule:
    """Says what values of a key must be, and checks them."""

    def check(self, name: str, value: Any) -> Any:
        """Return the value as it is stored, or refuse it by the key's name."""
        stored = self._stored(name, value)
        if stored is None:
            raise ScenarioError(f"{name} = {shown(value)}: must be {self.must_be()}{self._near(value)}")
        return stored

    def key(self, default: Any, doc: str) -> Any:
        """Declare a scenario key with this rule, and the line that ``airmix show`` prints beside it."""
        return field(default=default, metadata={"rule": self, "doc": doc})

    def must_be(self) -> str:
        """Return what a value must be, in words."""
        raise NotImplementedError

    def _stored(self, name: str, value: Any) -> Any:
        """Return the value as it is stored, None where it must not be."""
        raise NotImplementedError

    def _near(self, value: object) -> str:
        """Return what else the user may have meant by a value that is refused."""
        return ""


@dataclass(frozen=True)
class Real(Rule):
    """A number between ``low`` and ``high``; whole numbers are taken as such.

    ``off`` may lie outside; a key says by it that there is no limit, no error, or a choice to be made.
    """

    low: float = -math.inf
    high: float = math.inf
    open_low: bool = False
    open_high: bool = False
    off: float | None = None

    def must_be(self) -> str:
        left = f"above {self.low:g}" if self.open_low else f"of at least {self.low:g}"
        right = f"below {self.high:g}" if self.open_high else f"of at most {self.high:g}"
        bounds = [(self.low, left), (self.high, right)]
        within = " and ".join(text for bound, text in bounds if math.isfinite(bound))
        if math.isinf(self.high) and self.off is None:
            within = f"{within} (finite)".strip()
        return f"a number {within}" + ("" if self.off is None else f", or {self.off:g}")

    def _stored(self, name: str, value: Any) -> float | None:
        try:
            number = float(value) if isinstance(value, numbers.Real) and not isinstance(value, bool) else math.nan
        except OverflowError:
            return None
        above = number > self.low if self.open_low else number >= self.low
        below = number < self.high if self.open_high else number <= self.high
        return number if number == self.off or (above and below and math.isfinite(number)) else None


@dataclass(frozen=True)
class Whole(Rule):
    """A whole number between ``low`` and ``high``, also as 1e3 or of NumPy's types; ``auto`` allows that word too."""

    low: int = 0
    high: int = 2**63 - 1
    auto: bool = False

    def must_be(self) -> str:
        return f"a whole number of at least {self.low} and at most {self.high}" + (', or "auto"' if self.auto else "")

    def _stored(self, name: str, value: Any) -> Any:
        if self.auto and value == AUTO:
            return AUTO
        whole = isinstance(value, numbers.Integral) or (isinstance(value, float) and value.is_integer())
        return int(value) if whole and not isinstance(value, bool) and self.low <= int(value) <= self.high else None


@dataclass(frozen=True)
class Choice(Rule):
    """One of a few words, or the name of something that a registry holds, ours or another package's."""

    options: Collection[str]
    also: tuple[str, ...] = ()

    @property
    def words(self) -> tuple[str, ...]:
        """All that may be chosen."""
        return (*self.options, *self.also)

    def must_be(self) -> str:
        quoted = [f'"{option}"' for option in self.words]
        return f"one of {', '.join(quoted)}" if len(quoted) > 1 else quoted[0]

    def _stored(self, name: str, value: Any) -> str | None:
        return value if isinstance(value, str) and (value in self.options or value in self.also) else None

    def _near(self, value: object) -> str:
        several = isinstance(value, str) and len(self.words) > 1
        return did_you_mean(f'"{value}"', [f'"{option}"' for option in self.words]) if several else ""


@dataclass(frozen=True)
class Named(Choice):
    """The name of something that a registry holds, a file that one is made of, or an object of that kind itself."""

    options: Registry

    @property
    def words(self) -> tuple[str, ...]:
        return (*self.options, *self.options.forms, *self.also)

    def _stored(self, name: str, value: Any) -> str | None:
        if not isinstance(value, str):
            return self.options.add(value, name) if self.options.accepts(value) else None
        if value.startswith("object:") and value not in self.options:
            raise UnknownObjectError(f"{name} = {shown(value)}: {NOT_HERE}")
        return super()._stored(name, value)

    def _near(self, value: object) -> str:
        if not isinstance(value, str):
            return f", or an object of your own class that inherits from {self.options.base} (docs/extending.md)"
        word = value.partition(":")[0]
        no_file = f"; it names no file; write {word}:FILE with the path of one"
        return no_file if word in self.options.files else super()._near(value.lower())


@dataclass(frozen=True, kw_only=True)
class Text(Rule):
    """A non-empty line of text (``empty`` allows none)."""

    empty: bool = False
    forbidden: str = ""

    def must_be(self) -> str:
        without = f" without {' '.join(self.forbidden)}" if self.forbidden else ""
        return f"{'' if self.empty else 'non-empty '}printable text on one line{without}"

    def _stored(self, name: str, value: Any) -> str | None:
        if not isinstance(value, str) or not (value or self.empty) or not value.isprintable():
            return None
        return None if any(character in value for character in self.forbidden) else value


@dataclass(frozen=True, kw_only=True)
class Label(Text):
    """The name of a class without space around it: text, or a whole number, which is stored as text."""

    def _stored(self, name: str, value: Any) -> str | None:
        whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
        return super()._stored(name, str(value) if whole else value.strip() if isinstance(value, str) else value)


@dataclass(frozen=True)
class Items(Rule):
    """A list whose entries obey one rule; stored as a tuple."""

    rule: Rule
    least: int = 0
    most: int = sys.maxsize

    def must_be(self) -> str:
        count = f" of {self.least} values" if self.most == self.least else f" of at least {self.least} values"
        return f"a list{count if self.least else ''}, each {self.rule.must_be()}"

    def _stored(self, name: str, value: Any) -> tuple[Any, ...] | None:
        if not isinstance(value, (list, tuple)) or not self.least <= len(value) <= self.most:
            return None
        return tuple(self.rule.check(f"{name}[{place}]", entry) for place, entry in enumerate(value))


@dataclass(frozen=True)
class Mapped(Rule):
    """A table of names, each once, whose values obey one rule; stored as a tuple of pairs, which may be given too."""

    rule: Rule

    def must_be(self) -> str:
        return f"a table of names, each once and with {self.rule.must_be()}"

    def _stored(self, name: str, value: Any) -> tuple[tuple[str, Any], ...] | None:
        pairs = list(value.items() if isinstance(value, Mapping) else value) if isinstance(value, _TABLE) else None
        if pairs is None or not all(isinstance(pair, (list, tuple)) and len(pair) == 2 for pair in pairs):
            return None
        names = [Text().check(f"{name}[{place}]", each) for place, (each, _) in enumerate(pairs)]
        if len(set(names)) < len(names):
            return None
        return tuple((each, self.rule.check(f"{name}.{shown(each)}", kept)) for each, kept in pairs)


_TABLE: Final = (Mapping, list, tuple)
SHARE: Final = Real(0, 1, open_high=True)
DBM: Final = Real(-300, 100)


def check_fields(table: Any, prefix: str) -> None:
    """Check every key of a frozen table and store the checked values."""
    for declared in fields(table):
        checked = declared.metadata["rule"].check(prefix + declared.name, getattr(table, declared.name))
        object.__setattr__(table, declared.name, checked)


class Table:
    """A table of keys, which are checked when it is made; it is called as its class.

    A copy in another process brings the objects along that its keys name, as far as they can be pickled.
    """

    @staticmethod
    def loaded(name: str) -> Any:
        """Return a property: what the key of that name names, as the registry of its rule has it."""

        def load(table: Any) -> Any:
            return table.__dataclass_fields__[name].metadata["rule"].options.load(getattr(table, name))

        return property(load)

    def __post_init__(self) -> None:
        check_fields(self, f"{type(self).__name__.lower()}.")

    def __getstate__(self) -> dict[str, Any]:
        carried = {}
        for registry, name in self._named():
            if (given := registry.given(name)) is not None:
                with suppress(Exception):  # whatever a user's object does: it then stays in this process
                    carried[registry.group, name] = pickle.dumps(given)
        return {**vars(self), _CARRIED: carried} if carried else vars(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        carried = state.pop(_CARRIED, {})
        vars(self).update(state)
        registries = {registry.group: registry for registry in REGISTRIES}
        for (group, name), given in carried.items():
            if registries[group].given(name) is None:
                with suppress(Exception):  # such as a class of a notebook; loading the name says that it is not here
                    registries[group].loaded[name] = pickle.loads(given)

    def _named(self) -> Iterator[tuple[Registry, str]]:
        """Yield the registries of its keys, each with a name that a key says."""
        for declared in fields(self):  # type: ignore[arg-type]
            rule, value = declared.metadata["rule"], getattr(self, declared.name)
            rule, values = (rule.rule, value) if isinstance(rule, Items) else (rule, (value,))
            if isinstance(rule, Named):
                yield from ((rule.options, name) for name in values)


_CARRIED: Final = "objects given in Python"
