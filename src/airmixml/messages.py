"""What users read: errors that they can mend, a line each; words and numbers of messages, tables and figures.

An error's message names the field, the value, what it must be and what to do. Where private data are at fault, it marks
what it takes from them: ``private(value, instead)``. A simulation shows it. In protection ``hide_values`` puts in what
stands instead, so that an error which ends up in a log or in a notebook tells nothing about a row.
"""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial, wraps
from typing import Final, ParamSpec, Self, TypeVar

# Around what is private, and before what stands instead: characters that no message has otherwise.
_BEGIN, _INSTEAD, _END = "\ue000", "\ue001", "\ue002"
_MARKED: Final = re.compile(f"{_BEGIN}([^{_END}]*){_INSTEAD}([^{_END}]*){_END}")
_MARKS: Final = str.maketrans("", "", _BEGIN + _INSTEAD + _END)
_Result = TypeVar("_Result")
_Given = ParamSpec("_Given")

# The grade where attacks found nothing, and no epsilon that covers what was attacked forbids a stronger one to.
NOTHING_PROMISED = "nothing promised"
PROMISE_TOO_WEAK = "promise too weak"
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


def private(text: object, instead: str = "") -> str:
    """Return a part of an error's message that comes from private data, with what is said instead in protection."""
    return f"{_BEGIN}{str(text).translate(_MARKS)}{_INSTEAD}{instead}{_END}"


class AirMixError(ValueError):
    """Base of all errors that a user's input or machine causes; the command line prints it and exits with 2.

    Attributes:
        public: the message without what is ``private``.
    """

    def __init__(self, message: str = "") -> None:
        self.public = _MARKED.sub(r"\2", message)
        super().__init__(_MARKED.sub(r"\1", message))

    def hidden(self, how_to_see: str) -> Self:
        """Return the error without what is private, with a word on how its owner can see that."""
        found = type(self).__new__(type(self))  # whatever its own constructor takes
        cut = self.public != str(self)
        AirMixError.__init__(found, f"{self.public} (no row or value is shown; {how_to_see})" if cut else self.public)
        return found

    def saying(self, more: str) -> Self:
        """Return the error with more after its message; what is private stays so."""
        found = type(self).__new__(type(self))
        AirMixError.__init__(found, f"{private(self, self.public)} ({more})")
        return found


class ScenarioError(AirMixError):
    """A scenario key is unknown, or its value is of the wrong type or out of range."""


class DataError(AirMixError):
    """A data set is missing, broken or cannot be used for classification."""


class PrivacyError(AirMixError):
    """A privacy target cannot be certified by the chosen bound."""


class ProtocolError(AirMixError):
    """A message of the mask protocol is wrong, or one that a worker must not answer.

    Attributes:
        culprit: the worker whose message was wrong, where that is known.
    """

    culprit: int | None = None


class RunFolderError(AirMixError):
    """A run folder cannot be written, is incomplete, or belongs to another scenario."""


class LedgerError(AirMixError):
    """A ledger of budgets cannot be read or written, or is about other workers than those of the run."""


class PluginError(AirMixError):
    """There is no encoder, learner, accountant, ... of that name, or the package that brings it is broken."""


class NotFiniteError(AirMixError):
    """A stage made a number that is not finite: a fault of this package, or of an object that a user brought."""


class UnknownObjectError(ScenarioError, PluginError):
    """A name stands for an object that was given in Python, and this process does not have it."""


class AirMixWarning(UserWarning):
    """Base of our own warnings; the command line prints each as one line."""


class BoundsWarning(AirMixWarning):
    """Declared bounds leave little of the data."""


class ScaledRowsWarning(AirMixWarning):
    """Rows were scaled by what was measured on them before a protected fit."""


class RepeatedFitWarning(AirMixWarning):
    """Protected fits of one process release the same rows several times."""


class NameWarning(AirMixWarning):
    """Names in a ledger that look like one person's."""


class LeftoverWarning(AirMixWarning):
    """What an earlier run or version left in a folder matters for the privacy of the data."""


def is_out_of_memory(problem: BaseException) -> bool:
    """Return whether memory ran out: in Python, in NumPy, or in torch, on a GPU or in its allocator on the CPU."""
    said = str(problem) if isinstance(problem, RuntimeError) else ""
    return isinstance(problem, MemoryError) or "out of memory" in said or "DefaultCPUAllocator" in said


def hide_values(call: Callable[[], _Result], how_to_see: str, *, hide: bool = True) -> _Result:
    """Return what ``call`` returns; where it fails, its error says nothing about a row, unless ``hide`` is False.

    ``how_to_see`` tells the owner of the data what to do. An error of a library may quote what it was given, so that
    only its kind is told. A full disk or memory, or a missing package, is about the machine, and stays as it is.
    """
    if not hide:
        return call()
    try:
        return call()
    except AirMixError as problem:
        found: AirMixError = problem.hidden(how_to_see)
    except Exception as problem:
        if isinstance(problem, ImportError) or is_out_of_memory(problem) or getattr(problem, "errno", None):
            raise
        kind = type(problem).__name__
        found = DataError(f"{kind} in the code that private rows went through{private(f': {problem}')}")
        found = found.hidden(how_to_see)
    raise found  # here: the new error is not chained to the old one, whose message and frames hold values


def hides_values(call: Callable[_Given, _Result]) -> Callable[_Given, _Result]:
    """Hide values in the errors of a function where it is called with ``private``, and without ``show_values``."""

    @wraps(call)
    def guarded(*args: _Given.args, **kwargs: _Given.kwargs) -> _Result:
        hide = bool(kwargs.get("private")) and not kwargs.get("show_values")
        return hide_values(partial(call, *args, **kwargs), "the owner sees them with --show-values", hide=hide)

    return guarded


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
    if float(few := f"{epsilon:.4g}") < 1e3:
        return few
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


def withstands(colluders: int, workers: int) -> str:
    """Return how many of so many workers may collude before one is exposed, for statements that rest on masks."""
    who = f"{colluders:,} of {workers:,} workers ({number_text(100.0 * colluders / workers, 2)} %)"
    return f"withstands {who} who collude and do not know the graph of masks"


def simulated(seed: int) -> str:
    """Return what to say beside an epsilon whose noise and schedule follow from a seed."""
    undone = f"noise and schedule follow from seed {seed}, so anyone can remove them"
    return f"simulation: {undone}; for real data use airmix run --private"


def did_you_mean(word: str, options: Sequence[str], after: str = "") -> str:
    """Return "; did you mean X?" for the option most like ``word``; nothing where none is like it.

    Letters in capitals count as the small ones; ``after`` stands behind the question where there is one.
    """
    from difflib import SequenceMatcher, get_close_matches

    # Only the beginnings of some: a broken file may hold very long or very many names, and the comparison is quadratic.
    by_beginning = {option[:_LONGEST_SHOWN].lower(): option for option in reversed(options[:_MOST_COMPARED])}
    word = word.lower()[:_LONGEST_SHOWN]
    near = get_close_matches(word, list(by_beginning), n=2, cutoff=_LEAST_ALIKE)
    stands_out = len({SequenceMatcher(None, each, word).ratio() for each in near}) == len(near) > 0
    return f"; did you mean {by_beginning[near[0]]}?{after}" if stands_out else ""


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
    in_units = [(f"{value / size:.3g}", unit) for unit, size in units]
    number, unit = next((each for each in in_units if float(each[0]) >= 1.0), in_units[-1])  # the largest it reaches
    if "e" in number:  # at either end of the units: written out
        from decimal import Decimal  # here: seldom needed

        number = f"{Decimal(number):,f}"
    return f"{number} {unit}"


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
