"""The description of the package, as PyPI shows it: ``README.md`` without its picture, and its links as plain text.

All else is in ``pyproject.toml``. Both would lead to files that are not there: the project has no public address. Once
it has one, ``FILES`` is that of the folder that holds ``README.md``, and links to files lead there.
"""

import re
from pathlib import Path

from setuptools import setup

FILES = ""  # such as "https://forge.example/airmixml/main/"

READ_ME = (Path(__file__).parent / "README.md").read_text(encoding="utf-8")
WITHOUT_PICTURES = re.sub(r"!\[[^]]*\]\((?!https:)[^)]*\)\n*", "", READ_ME)
LINKED = rf"[\1]({FILES}\2)" if FILES else r"\1"
DESCRIPTION = re.sub(r"\[([^]]*)\]\((?!https:)([^)]*)\)", LINKED, WITHOUT_PICTURES)

setup(long_description=DESCRIPTION, long_description_content_type="text/markdown")
