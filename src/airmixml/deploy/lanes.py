"""The picture of a trial: a lane for each worker over time, and below them the accuracy after each round."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from airmixml.deploy.trial import BEGINS, KILLED, REFUSES, RESTARTED, SENDS, Times
from airmixml.output.figures import BLUE, GREEN, GREY, ORANGE, RED, finish_axis, new_figure, save_figure

_MOST_NAMES: Final = 32
_MARKS: Final[Mapping[str, Mapping[str, Any]]] = {
    SENDS: {"label": "frame sent", "marker": "|", "color": BLUE, "s": 60},
    KILLED: {"label": "killed (kill -9)", "marker": "X", "color": RED, "s": 90},
    RESTARTED: {"label": "started again", "marker": ">", "color": GREEN, "s": 60},
    REFUSES: {"label": "old order refused by its ledger", "marker": "D", "color": ORANGE, "s": 50},
}


def draw_lanes(times: Times, names: Sequence[str], rounds: Sequence[Mapping[str, Any]], title: str, path: Path) -> None:
    """Write the picture of what happened to the workers of these names; ``rounds`` are those of the server's result."""
    begun = {who: seconds for (who, what), seconds in times.items() if what == BEGINS}
    first, end = min(begun.values()), max(times.values())
    height = min(2.6 + 0.26 * len(names), 16.0)
    figure = new_figure(10.5, height + 1.9, title)
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(height, 1.9))
    for row, name in enumerate(names):
        starts, stops = (first, times.get((name, RESTARTED), end)), (times.get((name, KILLED), end), end)
        upper.hlines((row, row), starts, stops, color=BLUE, linewidth=3, alpha=0.35)
    for mark, style in _MARKS.items():
        points = [(at, names.index(who)) for (who, what), at in times.items() if what.startswith(mark)]
        if points:
            upper.scatter(*zip(*points, strict=True), zorder=4, **style)
    for who, seconds in begun.items():
        upper.axvline(seconds, color=GREY, linewidth=0.8)
        upper.text(seconds, -0.7, f" {who if seconds == first else who.split()[1]}", fontsize=8, va="bottom")
    step = -(-len(names) // _MOST_NAMES)
    upper.set_yticks(range(0, len(names), step), names[::step], fontsize=8)
    upper.set_ylim(len(names) - 0.4, -1.6)
    finish_axis(upper, legend=8.0, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=4, frameon=False)
    for each in rounds:
        if each["accuracy"] is not None:
            percent, absent = 100.0 * each["accuracy"], len(names) - len(each["workers"])
            done = min((at for at in begun.values() if at > begun[f"round {each['round']}"]), default=end)
            lower.plot(done, percent, "o", color=GREEN)
            told = f"{percent:.0f}" + (f"\n({absent} absent)" if absent else "")
            lower.annotate(
                told, (done, percent), (0, -6), textcoords="offset points", fontsize=8, ha="center", va="top"
            )
    lower.set(ylim=(0.0, 105.0), ylabel="accuracy (%)", xlabel="seconds since round 0 began")
    finish_axis(lower)
    save_figure(figure, path)
