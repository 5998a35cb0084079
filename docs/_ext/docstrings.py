"""Our docstrings for Sphinx: plain words with ``Args:``, in which bars are those of abs(h), never a substitution."""

from __future__ import annotations

import ast
import inspect
import re
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.ext.napoleon import Config, GoogleDocstring
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.typing import ExtensionMetadata

import airmixml

_SOURCE = Path(airmixml.__file__).parent
_STYLE = Config(napoleon_attr_annotations=False, napoleon_use_ivar=True, napoleon_use_rtype=False)
# What scikit-learn writes into every estimator, in words that only its own site can link.
_LEFT_OUT = re.compile(r"set_\w+_request")
_OBJECT_DEFAULT = re.compile(r"= <[^>]*>")
_PLAIN_TEXT = re.compile(r"(``.*?``)|(\||(?<=\w)_(?!\w)|\*)")


@cache
def constant_docs() -> dict[str, str]:
    """Return the string below each constant of the package, by the constant's name."""
    found = {}
    for file in _SOURCE.rglob("*.py"):
        body = ast.parse(file.read_text("utf-8")).body
        for declared, below in pairwise(body):
            target = declared.target if isinstance(declared, ast.AnnAssign) else None
            target = declared.targets[0] if isinstance(declared, ast.Assign) else target
            if isinstance(target, ast.Name) and isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
                found[target.id] = inspect.cleandoc(str(below.value.value))
    return found


def escaped(line: str) -> str:
    """Return a line in which bars, stars and words with a last underscore stand for themselves, outside of literals."""
    return _PLAIN_TEXT.sub(lambda found: found[1] or f"\\{found[2]}", line)


def prepare(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Escape, and turn the sections of a docstring into fields."""
    if what == "data":
        lines[:] = constant_docs().get(name.rpartition(".")[2], "").splitlines()
    examples = any(line.startswith(">>>") for line in lines)
    text = lines if examples else [escaped(line) for line in lines]
    # As an attribute its first line would be read as "type: meaning".
    kind = what if what in ("class", "function", "method", "exception") else "method"
    lines[:] = GoogleDocstring(text, _STYLE, app, kind, name, thing, options).lines()


def leave_out(app: Sphinx, what: str, name: str, thing: Any, skip: bool, options: Any) -> bool | None:
    """Leave out what other libraries add to our classes."""
    return True if _LEFT_OUT.fullmatch(name) else None


def sign(
    app: Sphinx, what: str, name: str, thing: Any, options: Any, signature: str | None, returns: str | None
) -> tuple[str, str | None] | None:
    """Show no arguments of a protocol, which is implemented and not called, and defaults that are objects as dots."""
    if what == "class" and getattr(thing, "_is_protocol", False):
        return "", None
    return None if signature is None else (_OBJECT_DEFAULT.sub("= ...", signature), returns)


class PlainFields(SphinxPostTransform):
    """Call the fields of our classes what they are, with a dash before their meaning."""

    default_priority = 400

    def run(self, **_: Any) -> None:
        """Change the words that Sphinx puts in."""
        for description in self.document.findall(addnodes.desc_content):
            for text in list(description.findall(nodes.Text)):
                if text == " -- ":
                    text.parent.replace(text, nodes.Text(" – "))
                elif text == "Variables" and isinstance(text.parent, nodes.field_name):
                    text.parent.replace(text, nodes.Text("Attributes"))


def setup(app: Sphinx) -> ExtensionMetadata:
    """Prepare every docstring that autodoc reads."""
    app.connect("autodoc-process-docstring", prepare)
    app.connect("autodoc-process-signature", sign)
    app.connect("autodoc-skip-member", leave_out)
    app.add_post_transform(PlainFields)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
