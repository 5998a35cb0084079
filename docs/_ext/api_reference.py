"""The API reference: one page per room, every public name from its docstring.

A type in a signature that exists but is described nowhere is shown without a link; one that does not exist is an error.
Names in full, such as `airmixml.radio.mixing.EqualMix`, become links wherever they stand in the documents.
"""

from __future__ import annotations

import builtins
import inspect
import re
import typing
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.domains.python import PythonDomain
from sphinx.environment import BuildEnvironment
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.typing import ExtensionMetadata

from known_words import known_words
from public_names import borrowed_names, homes, named_in, own_names, resolve, rooms

PAGES = "generated/api"
_LONGEST_VALUE = 80
_LINK_BACK = re.compile(
    r'(?P<block><div class="viewcode-block" id="(?P<name>[\w.]+)">\s*)'
    r'<a class="viewcode-back" href="[^"]*">(?P<text>.*?)</a>'
)


def kind_of(thing: Any) -> str:
    """Return which directive of autodoc describes it."""
    if inspect.isclass(thing):
        return "autoexception" if issubclass(thing, BaseException) else "autoclass"
    return "autofunction" if inspect.isroutine(thing) else "autodata"  # constants, and names of types


def first_line(thing: Any) -> str:
    """Return what a thing is, in a line."""
    return (inspect.getdoc(thing) or "").partition("\n")[0].replace("|", "\\|")


def described(path: str, thing: Any) -> list[str]:
    """Return the lines that describe it; bases are shown where they are ours, scikit-learn's or errors."""
    lines = [f".. {kind_of(thing)}:: {path}"]
    bases = getattr(thing, "__bases__", ()) if inspect.isclass(thing) else ()
    if kind_of(thing) == "autodata" and len(repr(thing)) > _LONGEST_VALUE:
        lines.append("   :no-value:")
    if any(base.__module__.startswith(("airmixml", "sklearn")) or issubclass(base, BaseException) for base in bases):
        lines.append("   :show-inheritance:")
    return [*lines, ""]


def room_page(room: str, more: list[str]) -> str:
    """Return the page of a room as reStructuredText; ``more`` are names that documents mention."""
    module = rooms().get(room) or resolve(room)
    about = (inspect.getdoc(module) or "").partition("\n\n")[0]
    lines = [room, "=" * len(room), "", f".. py:module:: {room}", "", about, ""]
    borrowed = borrowed_names(room)
    for each in own_names(room):
        lines += described(each.path, each.thing)
    if borrowed:
        heading = "Described elsewhere"
        lines += [heading, "-" * len(heading), ""]
        lines += [f"- ``{each.path}``: :py:obj:`{homes()[each.path].path}`" for each in borrowed]
        lines += [""]
    if more:
        heading = "Named in the documents"
        lines += [heading, "-" * len(heading), ""]
        for path in more:
            lines += described(path, resolve(path))
    return "\n".join(lines) + "\n"


def write_pages(app: Sphinx) -> None:
    """Write a page per room; a page that is as it was stays untouched, so that it is not read again."""
    folder = Path(app.srcdir, PAGES)
    folder.mkdir(parents=True, exist_ok=True)
    more = named_in(sorted(Path(app.srcdir).glob("*.md")))
    wanted = {f"{room}.rst": room_page(room, more.get(room, [])) for room in dict.fromkeys((*rooms(), *more))}
    for stale in {path.name for path in folder.glob("*.rst")} - set(wanted):
        (folder / stale).unlink()
    for name, text in wanted.items():
        if not (folder / name).exists() or (folder / name).read_text("utf-8") != text:
            (folder / name).write_text(text, "utf-8")


def note_other_paths(app: Sphinx, env: BuildEnvironment) -> None:
    """Let every public path, and the file that defines a thing, lead to where it is described."""
    objects = typing.cast(PythonDomain, env.get_domain("py")).objects
    for path, home in homes().items():
        defined = f"{getattr(home.thing, '__module__', '')}.{getattr(home.thing, '__qualname__', '')}"
        for other in (path, defined):
            if other.startswith("airmixml.") and other not in objects and home.path in objects:
                objects[other] = objects[home.path]._replace(aliased=True)


def mend_links_from_source(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Let a source page lead back to where each of its things is described.

    Sphinx takes all things of a file to be described under one room, and ours are where users import them from.
    """
    if not page.startswith("_modules/airmixml"):
        return
    objects = typing.cast(PythonDomain, app.env.get_domain("py")).objects
    module = page.removeprefix("_modules/").replace("/", ".")

    def mended(found: re.Match[str]) -> str:
        owner, _, member = found["name"].partition(".")
        home = objects.get(f"{module}.{owner}")
        entry = home and objects.get(f"{home.node_id}.{member}" if member else home.node_id)
        if entry is None:
            return found["block"]
        address = f"{app.builder.get_relative_uri(page, entry.docname)}#{entry.node_id}"
        return f'{found["block"]}<a class="viewcode-back" href="{address}">{found["text"]}</a>'

    context["body"] = _LINK_BACK.sub(mended, context["body"])


def settle_reference(
    app: Sphinx, env: BuildEnvironment, node: addnodes.pending_xref, shown: nodes.TextElement
) -> nodes.Element | None:
    """Show a type without a link if it exists; else Sphinx warns."""
    if node.get("refdomain") != "py":
        return None
    target = node["reftarget"].removeprefix("~")
    first = target.partition(".")[0]
    exists = resolve(target) is not None or hasattr(builtins, first) or first in known_words()
    return shown if exists else None


class LinkFullNames(SphinxPostTransform):
    """Turn literals that are the full name of something described into links."""

    default_priority = 5

    def run(self, **_: Any) -> None:
        """Wrap each such literal into a reference."""
        objects = typing.cast(PythonDomain, self.env.get_domain("py")).objects
        for literal in list(self.document.findall(nodes.literal)):
            path = literal.astext()
            entry = objects.get(path) if path.startswith("airmixml.") else None
            if entry is None or isinstance(literal.parent, (nodes.reference, addnodes.pending_xref)):
                continue
            page = self.app.builder.get_relative_uri(self.env.docname, entry.docname)
            link = nodes.reference("", "", internal=True, refuri=f"{page}#{entry.node_id}", reftitle=path)
            literal.replace_self(link)
            link += literal


def setup(app: Sphinx) -> ExtensionMetadata:
    """Write the pages before Sphinx reads; settle references after it."""
    app.connect("builder-inited", write_pages)
    app.connect("html-page-context", mend_links_from_source)
    app.connect("env-updated", note_other_paths)
    app.connect("missing-reference", settle_reference)
    app.add_post_transform(LinkFullNames)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
