"""What happens to our Markdown before Sphinx reads it.

Generated parts are put in, flowcharts are drawn, links to examples lead to their pages, those to folders become plain
text, and a link that has a line of its own becomes what it leads to: a file of the example package, or a table of
numbers (CSV). A page that begins below the first level of headings is one that another page links to, such as a proof:
it stands outside of the menu.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

from cli_reference import cli_reference
from flowchart import draw_flowchart
from gallery import GALLERY, ByStory
from public_names import rooms
from scenario_reference import scenario_reference

_MARK = re.compile(r"<!-- generated: (\w+) -->")
_FLOWCHART = re.compile(r"^```mermaid\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_FILE = re.compile(r"^\[[^\]]+\]\((\.\./examples/plugin/\S+)\)$", re.MULTILINE)
_LOW_HEADING = re.compile(r"\A##+ ")
_TABLE = re.compile(r"^\[([^\]]+)\]\((\S+\.csv)\)$", re.MULTILINE)
_LINK = re.compile(r"\[([^\]]+)\]\(([^)#:\s]+)\)")


def modules_table() -> str:
    """Return the modules of the API reference: a table, and the pages below it."""
    rows = [
        f"| [{name}](generated/api/{name}.rst) | {(module.__doc__ or '').partition(chr(10))[0]} |"
        for name, module in rooms().items()
    ]
    pages = [f"generated/api/{name}" for name in rooms()]
    toctree = ["```{toctree}", ":hidden:", "", *pages, "```"]
    return "\n".join(["| module | |", "|---|---|", *rows, "", *toctree])


GENERATED: dict[str, Callable[[], str]] = {
    "scenario": scenario_reference,
    "cli": cli_reference,
    "modules": modules_table,
}


def prepare(app: Sphinx, page: str, source: list[str]) -> None:
    """Change the text of one page."""
    file = Path(app.env.doc2path(page))
    if file.suffix != ".md":
        return

    def on_the_site(found: re.Match[str]) -> str:
        target = (file.parent / found[2]).resolve()
        if target.parent.name == "examples" and target.stem in ByStory.order:
            return f"[{found[1]}](/{GALLERY}/{target.stem}.rst)"
        return found[1] if target.is_dir() else found[0]

    text = _MARK.sub(lambda found: GENERATED[found[1]](), source[0])
    text = _FLOWCHART.sub(lambda found: f"```{{raw}} html\n{draw_flowchart(found[1])}\n```", text)
    text = _FILE.sub(r"```{literalinclude} \1\n```", text)
    text = _LOW_HEADING.sub("---\norphan: true\n---\n# ", text)
    text = _TABLE.sub(r":::{dropdown} \1\n```{csv-table}\n:file: \2\n:header-rows: 1\n```\n:::", text)
    source[0] = _LINK.sub(on_the_site, text)


def read_again(app: Sphinx, env: object, added: set[str], changed: set[str], removed: set[str]) -> list[str]:
    """Read pages with generated parts at every build: Sphinx does not watch what they are made of."""
    return [page for page in app.env.found_docs if _MARK.search(Path(app.env.doc2path(page)).read_text("utf-8"))]


def setup(app: Sphinx) -> ExtensionMetadata:
    """Prepare each page when it is read."""
    app.connect("source-read", prepare)
    app.connect("env-get-outdated", read_again)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
