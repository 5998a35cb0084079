"""Bits of messages: values cut to a readable length, the nearest valid word, why the system refused, simulation."""

import json
from collections.abc import Iterable, Sequence
from typing import Final

# The grade where attacks found nothing, and no epsilon that covers what was attacked forbids a stronger one to.
NOTHING_PROMISED = "nothing promised"
NOT_BY_QUICK: Final = "not decided by --quick"
_QUICKLY: Final = {"fig2": "Fig. 2", "table2": "energies of Iris", "table1": "some accuracies of Iris"}
UNINFORMED = "if colluders are chosen without knowing the graph"
_LONGEST_SHOWN = 60
_MOST_COMPARED = 1000
_LEAST_ALIKE = 0.51  # of the letters of two words
NO_GUARANTEE: Final = "no guarantee"
_NEVER_EXACT: Final = 1e4
_AS_GOOD_AS_NONE: Final = 1e15
_SIZES: Final = ((1e9, " billion"), (1e6, " million"), (1.0, ""))


def shown(value: object) -> str:
    """Return the value as Python writes it, cut where it would flood the line."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # an int of thousands of digits, a list nested without end
        return f"a {type(value).__name__} too large to print"
    return text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 3] + "..."


def shown_name(name: str) -> str:
    """Return a name as it is, or as Python writes it where it is long or not printable."""
    return name if name and name.isprintable() and len(name) <= _LONGEST_SHOWN else shown(name)


def nearest(word: str, options: Sequence[str]) -> str:
    """Return the option most like ``word``.

    Only the beginnings are compared: a broken file may hold very long or very many names, and the comparison
    is quadratic in their length.
    """
    from difflib import get_close_matches

    by_beginning = {option[:_LONGEST_SHOWN]: option for option in reversed(options[:_MOST_COMPARED])}
    best = get_close_matches(word[:_LONGEST_SHOWN], list(by_beginning), n=1, cutoff=0.0)
    return by_beginning[best[0]]


def quick_reproduction(targets: Iterable[str]) -> str:
    """Return what ``reproduce --quick`` decides of these targets."""
    *first, last = [words for target, words in _QUICKLY.items() if target in set(targets)]
    made = f"{', '.join(first)} and {last}" if first else last
    return f"{made[0].upper()}{made[1:]}, at the paper's settings; the rest is {NOT_BY_QUICK}."


def sentence(text: str) -> str:
    """Return the text with a capital and a full stop."""
    return f"{text[0].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"


def epsilon_text(epsilon: float | None) -> str:
    """Return an epsilon as all screens write it: "4.995", "1,582", "12,600", "1.58 billion", "no guarantee"."""
    if epsilon is None or not epsilon < _AS_GOOD_AS_NONE:
        return NO_GUARANTEE
    if epsilon < 1e3:
        return f"{epsilon:.4g}"
    rounded = float(f"{epsilon:.{3 if epsilon >= _NEVER_EXACT else 4}g}")
    size, word = next(each for each in _SIZES if rounded >= each[0])
    return f"{rounded / size:,.10g}{word}"


def against(adversary: str) -> str:
    """Return "against the server", "against everyone"."""
    return f"against {adversary}" if adversary in ("everyone", "anybody") else f"against the {adversary}"


def unstated(why: str) -> str:
    """Return what to say of an adversary against whom no accountant states an epsilon."""
    return f"{NO_GUARANTEE} stated ({why})"


def if_uninformed(adversaries: Iterable[str]) -> str:
    """Return what statements against these adversaries assume of colluders."""
    return f"against {', '.join(dict.fromkeys(adversaries))}: {UNINFORMED}"


def simulated(seed: int) -> str:
    """Return what to say beside an epsilon whose noise and schedule follow from a seed."""
    undone = f"noise and schedule follow from seed {seed}, so anyone can remove them"
    return f"simulation: {undone}; for real data use airmix run --private"


def did_you_mean(word: str, options: Sequence[str], before: str = "; ", after: str = "") -> str:
    """Return "; did you mean X?" for the option most like ``word``; nothing where none is like it.

    Letters in capitals count as the small ones; ``before`` and ``after`` stand around the question where there is one.
    """
    if not options:
        return ""
    from difflib import SequenceMatcher

    near = nearest(word.lower(), options)
    like = SequenceMatcher(None, word.lower()[:_LONGEST_SHOWN], near.lower()[:_LONGEST_SHOWN]).ratio()
    return f"{before}did you mean {near}?{after}" if like >= _LEAST_ALIKE else ""


def reason(problem: BaseException) -> str:
    """Return why the system or a library refused, on one line."""
    strerror = getattr(problem, "strerror", None)
    return one_line(strerror if isinstance(strerror, str) else str(problem)) or type(problem).__name__


def in_plain_words(problem: BaseException) -> str:
    """Return what is odd about some content, on one line; what Python says of its own types helps nobody."""
    if isinstance(problem, json.JSONDecodeError):
        return f"not JSON: {one_line(str(problem))}"
    if isinstance(problem, KeyError):
        return f"{one_line(shown_name(str(problem.args[0] if problem.args else '')))} is missing"
    if isinstance(problem, RecursionError):
        return "it is nested too deeply"
    if isinstance(problem, TypeError | AttributeError | IndexError | OverflowError):
        return "its parts are not of the kinds that they should be"
    return one_line(str(problem)) or "it is empty"


def one_line(text: str) -> str:
    """Return the text without line breaks, cut to a readable length."""
    return " ".join(text.split())[:200]


def as_set(value: object) -> str:
    """Return a value as a scenario file would have it, cut where it would flood the line."""
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, float):
        return f"{value:g}"
    return shown(list(value) if isinstance(value, tuple) else value)
