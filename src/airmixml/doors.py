"""The doors: every kind of thing that can be added to the package, and where each one of that kind lives.

To add one, write its file and name it here. Another package needs no change here: it declares an entry point in the
group of the kind. Names are known without importing anything; a thing is imported when it is first asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

from airmixml.errors import PluginError
from airmixml.wording import nearest, reason, shown


class Registry:
    """Named things of one kind.

    Attributes:
        kind: what one of them is called in messages.
        group: entry-point group through which other packages add to it.
        key: what a user sets to choose one, for messages.
        needs: attributes that every one of them must have.
    """

    def __init__(self, kind: str, group: str, key: str, *, needs: tuple[str, ...], own: Mapping[str, str]) -> None:
        self.kind, self.group, self.key, self.needs = kind, group, key, needs
        self._own = dict(own)
        self._loaded: dict[str, Any] = {}

    @property
    def own(self) -> tuple[str, ...]:
        """Names of those that come with the package."""
        return tuple(self._own)

    @cached_property
    def plugins(self) -> dict[str, EntryPoint]:
        """Those of other installed packages by name; a name of ours stays ours."""
        found: dict[str, EntryPoint] = {}
        for point in sorted(entry_points(group=self.group), key=lambda each: (each.name, each.value)):
            if point.name in found and found[point.name].value != point.value:
                raise PluginError(
                    f"{self.group}: two packages bring the {self.kind} {shown(point.name)} ({found[point.name].value} "
                    f"and {point.value}); uninstall one of them"
                )
            if point.name not in self._own:
                found[point.name] = point
        return found

    @property
    def names(self) -> tuple[str, ...]:
        """All names, ours first."""
        return (*self._own, *self.plugins)

    def __contains__(self, name: object) -> bool:
        return name in self._own or name in self.plugins

    def load(self, name: str) -> Any:
        """Return the thing of that name, or raise an error that names the nearest one."""
        if name not in self._loaded:
            if name not in self:
                raise PluginError(
                    f"{self.key} = {shown(name)}: must be one of {', '.join(self.names)}; did you mean "
                    f"{nearest(name.lower(), self.names)}?"
                )
            self._loaded[name] = self._import(name)
        return self._loaded[name]

    def _import(self, name: str) -> Any:
        place = self._own.get(name)
        if place is not None:
            module, _, attribute = place.partition(":")
            return getattr(import_module(module), attribute)
        point = self.plugins[name]
        package = "an unknown package" if point.dist is None else f"{point.dist.name} {point.dist.version}"
        try:
            thing = point.load()
        except Exception as problem:  # whatever somebody else's module does when it is imported
            raise PluginError(
                f"{self.kind} {shown(name)} of {package}: cannot be loaded ({type(problem).__name__}: "
                f"{reason(problem)}); mend or uninstall that package"
            ) from problem
        missing = [attribute for attribute in self.needs if not hasattr(thing, attribute)]
        if missing:
            raise PluginError(
                f"{self.kind} {shown(name)} of {package}: has no {', '.join(missing)}: must have "
                f"{', '.join(self.needs)}; see docs/extending.md"
            )
        return thing


ENCODERS: Final = Registry(
    "encoder",
    "airmixml.encoders",
    "workers.encoder",
    needs=("about",),
    own=dict.fromkeys(("scale", "clip", "dct", "projection", "convolution", "gradients"), ""),
)

DATASETS: Final = Registry(
    "data set",
    "airmixml.datasets",
    "workers.dataset",
    needs=("about",),
    own=dict.fromkeys(("iris", "digits", "mnist"), ""),
)

ACCOUNTANTS: Final = Registry(
    "accountant",
    "airmixml.accountants",
    "privacy.accountant",
    needs=("about",),
    own=dict.fromkeys(("paper-loose", "paper-tight", "rdp", "pld", "gdp"), ""),
)

ADVERSARIES: Final = Registry(
    "adversary",
    "airmixml.adversaries",
    "privacy.adversary",
    needs=("about",),
    own=dict.fromkeys(("release", "server", "eavesdropper"), ""),
)

LEARNERS: Final = Registry(
    "learner",
    "airmixml.learners",
    "learner.model",
    needs=("about",),
    own=dict.fromkeys(("mlp", "cnn", "ridge", "lda"), ""),
)

ATTACKS: Final = Registry(
    "attack",
    "airmixml.attacks",
    "--attacks",
    needs=("about",),
    own=dict.fromkeys(("least-squares", "non-negative", "prior", "release", "eavesdropper"), ""),
)

METHODS: Final = Registry(
    "method",
    "airmixml.methods",
    "--methods",
    needs=("about", "run", "missing", "skipped"),
    own={
        "airmix": "airmixml.compare.ours:AIRMIX",
        "mixup-features": "airmixml.compare.ours:MIXUP_FEATURES",
        "paper": "airmixml.compare.ours:PAPER",
        "federated": "airmixml.compare.baselines.federated:FEDERATED",
        "federated-network": "airmixml.compare.baselines.federated_network:FEDERATED_NETWORK",
        "dp-sgd": "airmixml.compare.baselines.dp_sgd:DP_SGD",
        "local-dp": "airmixml.compare.baselines.separate:LOCAL_DP",
        "raw": "airmixml.compare.baselines.separate:RAW",
    },
)

REGISTRIES: Final = (ENCODERS, DATASETS, ACCOUNTANTS, ADVERSARIES, LEARNERS, ATTACKS, METHODS)
