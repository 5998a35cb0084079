"""Print the versions that ``make test-lowest`` installs, as constraints: the lowest, or the newest.

The lowest are the bounds that ``pyproject.toml`` declares, of the dependencies and of the extras that the tests use.
What only tests need stays at the versions of ``constraints.txt``. So does torch, whose other versions may be had for
GPUs alone, of several GB: ``TORCH=2.9.0 make test-lowest`` takes another one.
"""

import os
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
EXTRAS = ("masks", "deploy", "explore", "onnx")


def main(kind: str) -> int:
    """Print one line ``name==version`` for each package that is not free to be the newest."""
    print("\n".join(f"{name}=={version}" for name, version in chosen(kind, os.environ.get("TORCH", "")).items()))
    return 0


def chosen(kind: str, torch: str = "") -> dict[str, str]:
    """Return versions by package; of all others pip takes the newest that fit."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    declared = bounds(project["dependencies"] + [each for extra in EXTRAS for each in extras[extra]])
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = dict(line.split("==") for line in lines if "==" in line and not line.startswith("#"))
    pinned = {plain(name): version for name, version in pins.items()}
    tools = pinned if kind == "lowest" else {name: pinned[name] for name in bounds(extras["dev"]) if name in pinned}
    lowest = declared if kind == "lowest" else {}
    kept = {name: version for name, version in tools.items() if name not in declared}
    return kept | lowest | {"torch": torch or pinned["torch"]}


def bounds(requirements: list[str]) -> dict[str, str]:
    """Return the lower bounds by package; one that is declared twice must have the same."""
    found: dict[str, str] = {}
    for name, bound in (each.split(">=") for each in requirements if ">=" in each):
        if found.setdefault(plain(name), bound) != bound:
            raise SystemExit(f"pyproject.toml: {name} >= {bound} and >= {found[plain(name)]}; must be one")
    return found


def plain(name: str) -> str:
    """Return the name of a package as all spellings of it are compared."""
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
