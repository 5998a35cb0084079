"""The documentation site: what is generated is complete, links lead somewhere, and it is built without a warning."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from types import ModuleType
from urllib.parse import unquote

import pytest

from airmixml import Scenario

Finished = subprocess.CompletedProcess[str]
ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "airmixml"
WRITTEN = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.fixture(scope="module")
def extension() -> Iterator[Callable[[str], ModuleType]]:
    """Import a module of ``docs/_ext`` by name, as Sphinx does."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "docs" / "_ext")
        yield import_module


def names_in_source(file: Path) -> list[str]:
    """Return the names of ``__all__`` as they are written, without importing anything."""
    found: list[str] = []
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if isinstance(target, ast.Name) and target.id == "__all__":
            found += ast.literal_eval(node.value)  # type: ignore[attr-defined]
    return found


def public_paths() -> set[str]:
    """Return every public name with its module, from the source."""
    files = [*PACKAGE.glob("*.py"), *PACKAGE.glob("*/__init__.py")]
    modules = {file: ".".join(file.relative_to(PACKAGE.parent).with_suffix("").parts) for file in files}
    paths = {f"{modules[file].removesuffix('.__init__')}.{name}" for file in files for name in names_in_source(file)}
    return paths - {"airmixml.__version__"}


def test_the_pages_of_the_api_have_every_public_name(extension: Callable[[str], ModuleType]) -> None:
    api, names = extension("api_reference"), extension("public_names")
    pages = "\n".join(api.room_page(room, []) for room in names.rooms())
    described = set(re.findall(r"^\.\. auto\w+:: (\S+)$", pages, re.MULTILINE))
    elsewhere = set(re.findall(r"^- ``(\S+)``: :py:obj:", pages, re.MULTILINE))
    assert len(public_paths()) > 200
    assert public_paths() == described | elsewhere
    assert not described & elsewhere


def test_the_scenario_reference_has_every_key_with_its_default(extension: Callable[[str], ModuleType]) -> None:
    text = extension("scenario_reference").scenario_reference()
    rows = dict(re.findall(r"^\| `([\w.]+) = (.*?)` \| ", text, re.MULTILINE))
    tables = tomllib.loads(Scenario().to_toml())
    flat = {key: value for key, value in tables.items() if not isinstance(value, dict)}
    flat |= {
        f"{name}.{key}": value
        for name, table in tables.items()
        if isinstance(table, dict)
        for key, value in table.items()
    }
    assert {key: tomllib.loads(f"value = {shown}")["value"] for key, shown in rows.items()} == flat


def test_the_reference_of_the_command_line_has_every_command_and_option(
    extension: Callable[[str], ModuleType], airmix: Callable[..., Finished]
) -> None:
    text = extension("cli_reference").cli_reference()
    sections = dict(re.findall(r"^#+ airmix ([\w ]+)\n(.*?)(?=^#+ airmix |\Z)", text, re.DOTALL | re.MULTILINE))
    listed = airmix("--help").stdout.partition("Commands:")[2]
    commands = re.findall(r"^  (\w+)", listed, re.MULTILINE)
    assert len(commands) > 15
    for command in commands:
        printed = airmix(command, "--help").stdout
        options = set(re.findall(r"^  (--[\w-]+)", printed, re.MULTILINE)) - {"--help"}
        missing = [option for option in options if f"`{option}" not in sections[command]]
        assert not missing, command
        for part in re.findall(r"^  (\w+)", printed.partition("Commands:")[2], re.MULTILINE):
            assert f"{command} {part}" in sections


def test_a_flowchart_has_every_box_and_arrow(extension: Callable[[str], ModuleType]) -> None:
    drawn = extension("flowchart").draw_flowchart(
        'flowchart TD\n  a["first<br/>more"] --> b --> c["last & least"]\n  a --> c\n'
    )
    assert drawn.count("<rect") == 3
    assert drawn.count('class="flow-arrow"') == 3
    assert "last &amp; least" in drawn
    places = [float(x) for x in re.findall(r'<rect class="flow-box" x="[\d.]+" y="([\d.]+)"', drawn)]
    assert places == sorted(places)
    assert len(set(places)) == 3


def anchors(document: Path) -> set[str]:
    """Return the anchors of a document's headings, as GitHub makes them."""
    text = re.sub(r"^```.*?^```", "", document.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower().replace("`", "")).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("document", WRITTEN, ids=lambda path: path.name)
def test_links_with_an_anchor_lead_to_a_heading(document: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", document.read_text(encoding="utf-8")):
        assert anchor in anchors(document.parent / target if target else document), f"{target}#{anchor}"


class Page(HTMLParser):
    """What a page links to, what it loads, and where one can jump to in it."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.loaded: set[str] = set()
        self.places: set[str] = {""}
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attributes}
        self.places |= {found[name] for name in ("id", "name") if name in found}
        if tag == "a" and "href" in found:
            self.links.add(found["href"])
        elif tag in ("link", "script", "img", "source", "iframe"):
            self.loaded |= {found[name] for name in ("href", "src") if found.get(name)}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site from a copy of what it is made of."""
    clone = tmp_path_factory.mktemp("clone")
    shutil.copytree(ROOT / "docs", clone / "docs", ignore=shutil.ignore_patterns("generated", "__pycache__"))
    for entry in ("examples", "src", "benchmarks"):
        (clone / entry).symlink_to(ROOT / entry)
    for entry in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"):
        shutil.copy(ROOT / entry, clone / entry)
    options = ["-W", "-n", "--keep-going", "-q", "-j", "2"]
    command = [sys.executable, "-m", "sphinx", *options, str(clone / "docs"), str(clone / "site")]
    done = subprocess.run(command, cwd=clone, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return clone / "site"


@pytest.mark.long
def test_every_public_name_can_be_looked_up_on_the_built_site(site: Path) -> None:
    from sphinx.util.inventory import InventoryFile

    inventory = InventoryFile.loads((site / "objects.inv").read_bytes(), uri="")
    known = {name for kind in inventory.data if kind.startswith("py:") for name in inventory.data[kind]}
    assert public_paths() <= known


@pytest.mark.long
def test_links_of_the_built_site_lead_somewhere_and_nothing_is_fetched(site: Path) -> None:
    pages = {file.resolve(): Page(file) for file in site.rglob("*.html") if "_static" not in file.parts}
    assert len(pages) > 60
    broken, fetched = [], []
    for file, page in pages.items():
        fetched += [each for each in page.loaded if re.match(r"(https?:)?//", each)]
        for link in page.links | page.loaded:
            path, _, place = link.partition("#")
            if re.match(r"[a-z]+:|//", link):
                continue
            target = (file.parent / unquote(path.partition("?")[0])).resolve() if path else file
            target = target / "index.html" if target.is_dir() else target
            known = pages.get(target)
            if not target.exists() or (known is not None and unquote(place) not in known.places):
                broken.append(f"{file.relative_to(site.resolve())}: {link}")
    assert not broken
    assert not fetched


@pytest.mark.long
def test_equations_are_drawn_by_the_browser_itself(site: Path) -> None:
    page = site / "concepts.html"
    assert page.read_text(encoding="utf-8").count("<math") > 5
    assert not [each for each in Page(page).loaded if "mathjax" in each.lower()]


def test_the_quickstart_lists_every_extra_once() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    rows = re.findall(r"^\| (`.*`) \| .+ \|$", (ROOT / "docs" / "quickstart.md").read_text(encoding="utf-8"), re.M)
    assert sorted(re.findall(r"`([^`]+)`", " ".join(rows))) == sorted(extras)
