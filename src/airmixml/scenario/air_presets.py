"""Airs that come with the package: each a file of keys of the table ``[air]``."""

from importlib.resources import files
from typing import Final

from airmixml.errors import ScenarioError
from airmixml.wording import did_you_mean, shown

_FILES = files("airmixml") / "airs"

AIR_PRESETS: Final = tuple(
    sorted(
        (entry.name.removesuffix(".toml") for entry in _FILES.iterdir() if entry.name.endswith(".toml")),
        key=lambda name: (name != "ideal", name),
    )
)
"""Their names, the ideal one first."""


def air_text(name: object) -> str:
    """Return the TOML file of an air, as shipped."""
    if name not in AIR_PRESETS:
        near = did_you_mean(name, AIR_PRESETS) if isinstance(name, str) else ""
        raise ScenarioError(f"air.preset = {shown(name)}: must be one of {', '.join(AIR_PRESETS)}{near}")
    return (_FILES / f"{name}.toml").read_text(encoding="utf-8")


def air_summary(name: str) -> str:
    """Return the first comment line of an air."""
    return air_text(name).partition("\n")[0].lstrip("# ")
