"""Words and numbers of messages, tables and figures: readable lengths, units, the nearest valid word."""

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
UNSTATED: Final = f"{NO_GUARANTEE} stated"
_NEVER_EXACT: Final = 1e4
_AS_GOOD_AS_NONE: Final = 1e15
_SIZES: Final = ((1e9, " billion"), (1e6, " million"), (1.0, ""))
NONE: Final = "–"  # in a cell that has no value
NO_PROTECTION_ABOVE_EPSILON: Final = 50.0
_JOULES: Final = (("J", 1.0), ("mJ", 1e-3), ("µJ", 1e-6), ("nJ", 1e-9), ("pJ", 1e-12))
_SECONDS: Final = (("h", 3600.0), ("min", 60.0), ("s", 1.0), ("ms", 1e-3), ("µs", 1e-6))


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


def number_text(value: float, digits: int = 4) -> str:
    """Return a number to so many digits as people write it: "0.4987", "39,760"."""
    return f"{float(f'{value:.{digits}g}'):,.10g}"


def against(adversary: str) -> str:
    """Return "against the server", "against everyone"."""
    return f"against {adversary}" if adversary in ("everyone", "anybody") else f"against the {adversary}"


def unstated(why: str) -> str:
    """Return what to say of an adversary against whom no accountant states an epsilon."""
    return f"{UNSTATED} ({why})"


def if_uninformed(adversaries: Iterable[str]) -> str:
    """Return what statements against these adversaries assume of colluders."""
    return f"against {', '.join(dict.fromkeys(adversaries))}: {UNINFORMED}"


def simulated(seed: int) -> str:
    """Return what to say beside an epsilon whose noise and schedule follow from a seed."""
    undone = f"noise and schedule follow from seed {seed}, so anyone can remove them"
    return f"simulation: {undone}; for real data use airmix run --private"


def did_you_mean(word: str, options: Sequence[str], after: str = "") -> str:
    """Return "; did you mean X?" for the option most like ``word``; nothing where none is like it.

    Letters in capitals count as the small ones; ``after`` stands behind the question where there is one.
    """
    from difflib import get_close_matches

    # Only the beginnings of some: a broken file may hold very long or very many names, and the comparison is quadratic.
    by_beginning = {option[:_LONGEST_SHOWN].lower(): option for option in reversed(options[:_MOST_COMPARED])}
    near = get_close_matches(word.lower()[:_LONGEST_SHOWN], list(by_beginning), n=1, cutoff=_LEAST_ALIKE)
    return f"; did you mean {by_beginning[near[0]]}?{after}" if near else ""


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


def epsilon_words(epsilon: float | None) -> str:
    """Return an epsilon for a sentence: "about 12,600: no protection" where it is so large that it protects nobody."""
    if epsilon is None or epsilon_text(epsilon) == NO_GUARANTEE:
        return NO_GUARANTEE
    about = "about " if epsilon >= _NEVER_EXACT else ""
    return f"{about}{epsilon_text(epsilon)}" + (": no protection" if epsilon > NO_PROTECTION_ABOVE_EPSILON else "")


def joules(value: float) -> str:
    """Return an energy with a unit that keeps it readable."""
    return _with_unit(value, _JOULES)


def duration(seconds: float) -> str:
    """Return a time with a unit that keeps it readable."""
    return _with_unit(seconds, _SECONDS)


def _with_unit(value: float, units: Sequence[tuple[str, float]]) -> str:
    unit, size = next((each for each in units if value >= each[1]), units[-1])  # the largest that the value reaches
    return f"{value / size:.3g} {unit}"


def plural(count: int, thing: str, ending: str = "s") -> str:
    """Return "1 seed", "2 seeds"; with another ending "2 batches"."""
    return f"{count:,} {thing}{'' if count == 1 else ending}"


def slots_text(slots: int, rounds: int = 0, *, mean: bool = False) -> str:
    """Return "1 slot", "1 slot and 20 rounds" where rounds follow, and where a ``mean`` comes before that it does."""
    before = ", after a slot for the mean" if mean else ""
    return plural(slots, "slot") + (f" and {plural(rounds, 'round')}" if rounds else "") + before


def own_slots(count: int, *, mean: bool) -> str:
    """Return in how many slots and rounds one worker sent; where a ``mean`` came before, with the slot for it."""
    return plural(count + mean, "slot") + (", one of them for the mean" if mean else "")


def outputs_text(task: str, count: int) -> str:
    """Return "3 classes", "1 target", "5 labels": what a task's labels are."""
    if task == "classification":
        return f"{count:,} class{'' if count == 1 else 'es'}"
    return plural(count, "target" if task == "regression" else "label")


def power_of_ten(value: float) -> str:
    """Return 100000.0 as 10^5, 693500.0 as 6.935e5, and what is below a hundred as it is."""
    if value < 100.0:
        return f"{value:g}"
    mantissa, _, exponent = f"{value:.10e}".partition("e")
    return f"10^{int(exponent)}" if float(mantissa) == 1.0 else f"{float(mantissa):g}e{int(exponent)}"
