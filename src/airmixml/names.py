"""Names of people: which spellings are one name, and which names look like the same person."""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Final

# All that Unicode says to ignore (Default_Ignorable_Code_Point, whether assigned or not), and what has no ink.
_UNSEEN: Final = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u2800\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U00016fe4\U0001bca0-\U0001bca3\U0001d159\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff]"
)
_SIGNS: Final = str.maketrans("\u2018\u2019\u201b\u02bb\u02bc\u2032\u00b4`\u2212", "''''''''-", " ")
_WHOLE: Final = re.compile(r"(?<=\d)\.0+\Z")  # as spreadsheets write whole numbers
_PADDING: Final = re.compile(r"(?<!\d)(?<!\d[.,])0+(?=\d)")


def normal_name(text: str) -> str:
    """Return the spelling under which a name is kept: NFC, nothing invisible, and single blanks between words alone."""
    if not (text.isascii() and text.isprintable()):
        seen = "".join(each for each in text if each.isspace() or unicodedata.category(each) not in ("Cc", "Cf"))
        text = unicodedata.normalize("NFC", _UNSEEN.sub("", seen))
    return " ".join(text.split())


def similar_names(new: Sequence[str], known: Iterable[str]) -> list[tuple[str, str]]:
    """Return pairs of a name that has been there before and a new one that looks like the same person's."""
    first = {_appearance(name): name for name in known} if new else {}
    pairs = ((first.setdefault(_appearance(name), name), name) for name in new)
    return [(one, other) for one, other in pairs if one != other]


def _appearance(name: str) -> str:
    """Return what names share that differ in case, zeros before a number, .0 behind it, width, blanks, or signs.

    Unassigned and private-use characters do not count, since they may show as nothing. A kept name keeps them: which
    are assigned depends on the version of Python.
    """
    text = unicodedata.normalize("NFKC", name.translate(_SIGNS))  # before: an accent by itself becomes a blank with one
    text = unicodedata.normalize("NFKC", text.casefold()).translate(_SIGNS)
    if not text.isascii():
        kinds = ((each, unicodedata.category(each)) for each in text)
        text = "".join("-" if kind == "Pd" else each for each, kind in kinds if kind not in ("Cn", "Co"))
    return _PADDING.sub("", _WHOLE.sub("", text))
