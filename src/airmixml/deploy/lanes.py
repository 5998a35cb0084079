"""The picture of a trial: a lane for each endpoint over time, kills and refusals marked, accuracy below."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from airmixml.deploy.trial import History
from airmixml.output.figures import BLACK, BLUE, GREEN, GREY, ORANGE, RED, finish_axis, new_figure, save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_NAMES: Final = 32
_SHADES: Final = {
    "announcing": 0.05,
    "revealing": 0.1,
    "sharing": 0.15,
    "sending": 0.25,
    "signing": 0.15,
    "answering": 0.1,
}


def draw_lanes(history: History, title: str, path: Path) -> None:
    """Write the picture; events of the server shade its phases, those of workers are in their lanes."""
    lanes = list(history.lanes.values())
    height = min(2.6 + 0.26 * len(lanes), 16.0)
    figure = new_figure(10.5, height + 1.9, title)
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(height, 1.9))
    _draw_rounds(upper, history)
    for place, lane in enumerate(lanes):
        for first, *last in lane.alive:
            upper.plot([first, last[0] if last else history.seconds], [place, place], color=BLUE, lw=3, alpha=0.35)
    marks: tuple[tuple[str, dict[str, Any]], ...] = (
        ("frame sent, reserved before", {"marker": "|", "color": BLUE, "s": 60}),
        ("killed (kill -9)", {"marker": "X", "color": RED, "s": 90}),
        ("started again", {"marker": ">", "color": GREEN, "s": 60}),
        ("replayed order refused by the ledger", {"marker": "D", "color": ORANGE, "s": 50}),
    )
    times = [
        [[each["seconds"] for each in lane.events if each["event"] == "frame"] for lane in lanes],
        [lane.killed for lane in lanes],
        [[first for first, *_ in lane.alive[1:]] for lane in lanes],
        [[each["seconds"] for each in lane.refusals] for lane in lanes],
    ]
    for (label, style), found in zip(marks, times, strict=True):
        points = [(second, place) for place, seconds in enumerate(found) for second in seconds]
        if points:
            upper.scatter(*zip(*points, strict=True), label=label, zorder=4, linewidths=1.2, **style)
    step = -(-len(lanes) // _MOST_NAMES)
    upper.set_yticks(range(0, len(lanes), step), [lane.name for lane in lanes[::step]], fontsize=8)
    upper.set_ylim(len(lanes) - 0.4, -1.6)
    finish_axis(upper, legend=8.0, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=4, frameon=False)
    upper.grid(visible=False, axis="y")
    _draw_accuracy(lower, history)
    save_figure(figure, path)


def _draw_rounds(axis: "Axes", history: History) -> None:
    """Shade each phase of the server, and name each round where it begins."""
    ends = [*(each["seconds"] for each in history.phases[1:]), history.seconds]
    named = (-1, -1)
    for each, end in zip(history.phases, ends, strict=True):
        if each["phase"] == "over":
            axis.axvline(each["seconds"], color=BLACK, lw=0.8, ls=":")
            continue
        axis.axvspan(each["seconds"], end, color=GREY, alpha=_SHADES[each["phase"]], lw=0, zorder=0)
        if (each["round"], each["attempt"]) != named:
            named = each["round"], each["attempt"]
            again = f".{each['attempt']}" if each["attempt"] else ""
            axis.axvline(each["seconds"], color=GREY, lw=0.8)
            label = f" round {each['round']}{again}" if not each["round"] else f" {each['round']}{again}"
            axis.text(each["seconds"], -0.7, label, fontsize=8, va="bottom", clip_on=True)


def _draw_accuracy(axis: "Axes", history: History) -> None:
    scored = [
        (each["seconds"], 100.0 * each["accuracy"], each) for each in history.sums if each["accuracy"] is not None
    ]
    for (second, percent, each), following in zip(scored, [*scored[1:], None], strict=True):
        end = history.seconds if following is None else following[0]
        axis.plot([second, end], [percent, percent], color=GREEN)
        axis.plot(second, percent, "o", color=GREEN, ms=5)
        fewer = history.workers - len(each["workers"])
        told = f"{percent:.0f}" + (f"\n({fewer} absent)" if fewer else "")
        axis.annotate(told, (second, percent), (0, -6), textcoords="offset points", fontsize=8, ha="center", va="top")
    first = history.phases[0]["seconds"] if history.phases else 0.0
    axis.set_ylim(0.0, 105.0)
    axis.set_xlim(first - 0.05 * (history.seconds - first), history.seconds)
    axis.set_ylabel("accuracy (%)")
    axis.set_xlabel("seconds since the processes were started")
    finish_axis(axis)
