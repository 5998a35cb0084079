"""Equations as MathML, which browsers draw themselves: no script, font or network. docutils has the converter."""

from __future__ import annotations

from docutils import nodes
from docutils.utils.math import latex2mathml
from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata
from sphinx.writers.html5 import HTML5Translator


def _mathml(node: nodes.Element, *, block: bool) -> str:
    return latex2mathml.tex2mathml(node.astext(), as_block=block)


def visit_inline(writer: HTML5Translator, node: nodes.math) -> None:
    """Write an equation of a line of text."""
    writer.body.append(_mathml(node, block=False))
    raise nodes.SkipNode


def visit_block(writer: HTML5Translator, node: nodes.math_block) -> None:
    """Write an equation that stands alone."""
    writer.body.append(f'<div class="math">{_mathml(node, block=True)}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the renderer under the name ``mathml``."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
