"""How Sphinx builds the documentation site; `make docs` calls it. It is built and read offline."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))

from airmixml.version import __version__

project = "AirMixML"
author = "The AirMixML authors"
copyright = "The AirMixML authors, Apache-2.0"
version = release = __version__
language = "en"

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "mathml",
    "docstrings",
    "api_reference",
    "written_pages",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_ext", "**sg_execution_times.rst", "generated/gallery/*.ipynb", "generated/gallery/*.py"]
nitpicky = True
default_role = "code"
smartquotes = False  # values of keys are in straight ones
html_math_renderer = "mathml"

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4

autodoc_default_options = {"members": True}
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_typehints = "signature"

sphinx_gallery_conf = {
    "examples_dirs": str(HERE.parent / "examples"),
    "gallery_dirs": "generated/gallery",
    "filename_pattern": "",
    "ignore_pattern": r"(stream|pretrained_encoder)\.py$",
    "within_subsection_order": "gallery.ByStory",
    "image_scrapers": ("gallery.scrape",),
    "ignore_repr_types": r"matplotlib[.text]*|.*Figure.*",
    "abort_on_example_error": True,
    "show_memory": False,
    "show_signature": False,
    "download_all_examples": False,
    "plot_gallery": True,
    "log_level": {"backreference_missing": "debug"},
}

html_theme = "pydata_sphinx_theme"
html_title = "AirMixML"
html_theme_options = {
    "show_prev_next": False,
    "navbar_align": "left",
    "header_links_before_dropdown": 7,
    "show_nav_level": 1,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
copybutton_prompt_text = "$ "
