"""The pictures of a folder, inside a page: within a budget of bytes, and with words for those who do not see them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from airmixml.output.page import Picture
from airmixml.reading import read_regular

MOST_BYTES: Final = 2_000_000  # a page of 3 MB, base64 and words taken off
_TABLES: Final = "; the tables have the numbers."
# What stands below each, and what it shows. Of the others the file's name is all that is known.
_ABOUT: Final = {
    "figures/overview": (
        "What was sent, received and learned",
        "Examples of slots as sent and as received, how well each class was learned or how learning went, and "
        "histograms of transmit power and of the received signal-to-noise ratio.",
    ),
    "figures/privacy": (
        "Epsilon by accountant and adversary",
        "Epsilon that each accountant certifies against each adversary, on a logarithmic axis; the cards give the "
        "numbers.",
    ),
    "figures/seeds": (
        "All seeds",
        "Accuracy and other results of every seed beside their mean; the tables give the numbers.",
    ),
    "attack": ("What was recovered", f"Originals beside what each adversary recovered{_TABLES}"),
    "audit": (
        "Claims and lower bounds, and the error rates of the attack",
        f"Epsilons claimed and found, on a line each{_TABLES}",
    ),
    "plan": ("Other designs at the same privacy", f"Signal, energy and learning noise of other designs{_TABLES}"),
    "compare": ("Accuracy, epsilon, energy and time of each row", f"The rows of the table as a picture{_TABLES}"),
    "sweep": ("The first metric over the grid", f"The first metric at every combination of the values{_TABLES}"),
    "tolerances": (
        "Accuracy against the size of each impairment",
        f"How accuracy falls as each impairment grows{_TABLES}",
    ),
}
_PROTECTED: Final = ("figures/privacy",)


def pictures_in(folder: Path, *, protected: bool = False) -> list[Picture]:
    """Return the pictures of a folder; of a protected run only what its statements cover."""
    files = {
        path.relative_to(folder).with_suffix("").as_posix(): path
        for path in sorted((*folder.glob("*.png"), *folder.glob("figures/*.png")))
    }
    known = [name for name in _ABOUT if name in files]
    others = [name for name in files if name not in _ABOUT and "/" not in name]
    found = []
    for name in known + others:
        if protected and name not in _PROTECTED:
            continue
        path = files[name]
        caption, shows = _ABOUT.get(name, (name, f"{name}: measured values beside the printed ones{_TABLES}"))
        found.append(Picture(caption=caption, shows=shows, content=read_regular(path), file=path.name))
    return found


def embed(pictures: Sequence[Picture], most_bytes: int = MOST_BYTES) -> list[Picture]:
    """Return pictures whose data are at most so many bytes together; those that do not fit are named by their file."""
    found = []
    for each in pictures:
        most_bytes -= len(each.content)
        found.append(each if most_bytes >= 0 else replace(each, content=b""))
    return found
