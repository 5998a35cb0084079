"""Scenarios that come with the package."""

from importlib.resources import files

from airmixml.errors import ScenarioError
from airmixml.wording import nearest, shown

_FOLDER = files("airmixml") / "presets"


def preset_names() -> list[str]:
    """Return the names of all presets."""
    return sorted(entry.name.removesuffix(".toml") for entry in _FOLDER.iterdir() if entry.name.endswith(".toml"))


def preset_text(name: str) -> str:
    """Return the TOML file of a preset, as shipped."""
    if name not in preset_names():
        raise ScenarioError(
            f"preset {shown(name)}: there is none of that name; did you mean {nearest(name, preset_names())}? "
            "(`airmix presets` lists them)"
        )
    return (_FOLDER / f"{name}.toml").read_text(encoding="utf-8")


def preset_summary(name: str) -> str:
    """Return the first comment line of a preset."""
    return preset_text(name).partition("\n")[0].lstrip("# ")
