"""Names of people: which spellings are one name, and which names look like the same person."""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Final

# Unicode gives these no width although they are neither control nor format characters.
_NO_WIDTH: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u2800\u3164\ufe00-\ufe0f\uffa0]|[\U000e0100-\U000e01ef]"
)
_SIGNS: Final = str.maketrans("\u2018\u2019\u02bc\u2010\u2012\u2013\u2014\u2212", "'''-----", " ")
_WHOLE: Final = re.compile(r"([+-]?\d+)\.0+")  # as spreadsheets write whole numbers
_PADDING: Final = re.compile(r"(?<!\d)(?<!\d[.,])0+(?=\d)")


def normal_name(text: str) -> str:
    """Return the spelling under which a name is kept.

    Unicode's composed form (NFC), without invisible characters and with single blanks between words alone.
    """
    if not (text.isascii() and text.isprintable()):
        seen = "".join(each for each in text if each.isspace() or unicodedata.category(each) not in ("Cc", "Cf"))
        text = unicodedata.normalize("NFC", _NO_WIDTH.sub("", seen))
    return " ".join(text.split())


def similar_names(new: Sequence[str], known: Iterable[str]) -> list[tuple[str, str]]:
    """Return pairs of a name that has been there before and a new one that looks like the same person's."""
    first = {_appearance(name): name for name in known} if new else {}
    pairs = ((first.setdefault(_appearance(name), name), name) for name in new)
    return [(one, other) for one, other in pairs if one != other]


def _appearance(name: str) -> str:
    """Return what names share that differ in case, zeros before a number, .0 behind it, width, blanks, or dashes."""
    text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold()).translate(_SIGNS)
    whole = _WHOLE.fullmatch(text)
    return _PADDING.sub("", text if whole is None else whole[1])
