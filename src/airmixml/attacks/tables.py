"""The findings as Markdown and CSV, and the words of their cells."""

from __future__ import annotations

import csv
import io
from functools import partial
from typing import Any, Final

from airmixml.attacks.parts import LISTENERS
from airmixml.attacks.verdict import ADVERSARIES
from airmixml.output import numbers

NONE: Final = numbers.NONE
epsilon_text: Final = partial(numbers.epsilon_text, digits=3)
SERVER_COLUMNS: Final = ("PSNR", "SSIM", "copied", "read", "label")
LISTENER_COLUMNS: Final = ("AUC", "hits", "clearest", "unmixed", "beside", "classes")


def server_cells(figures: dict[str, Any]) -> tuple[str, ...]:
    """Return the texts of one reconstruction, in the order of ``SERVER_COLUMNS``."""
    ssim = figures["ssim"]
    return (
        f"{figures['psnr_db']['median']:.1f} dB",
        NONE if ssim is None else f"{ssim['median']:.2f}",
        f"{100 * figures['copied_share']:.1f} %",
        f"{100 * figures['recognised_share']:.1f} %",
        f"{100 * figures['labels']['accuracy']:.1f} %",
    )


def listener_cells(figures: dict[str, Any]) -> tuple[str, ...]:
    """Return the texts of one attack without a schedule, in the order of ``LISTENER_COLUMNS``."""
    linkage, clearest, unmixing, beside, shares = (
        figures[name] for name in ("linkage", "clearest_slots", "unmixing", "beside", "shares")
    )
    return (
        f"{linkage['auc']:.2f}",
        f"{100 * linkage['hit_rate']:.1f} %",
        f"{clearest['identified']} of {clearest['looked_at']}",
        f"{unmixing['identified']:,} of {unmixing['estimates']:,}",
        NONE if beside is None else f"{beside['identified']} of {beside['looked_at']}",
        NONE if shares is None else f"{100 * shares['distance']:.1f} %",
    )


def attack_markdown(metrics: dict[str, Any]) -> str:
    """Return verdicts and tables of all cases."""
    cases = metrics["cases"]
    lines = ["# What an adversary learns", ""]
    lines += [f"- **{case['label']}**: {case['verdict']}" for case in cases]
    lines += ["", "![originals and what was recovered](attack.png)", "", "## The server, who knows the schedule", ""]
    lines += _table(
        ("setting", "epsilon claimed", "method", *SERVER_COLUMNS),
        [
            (case["label"], epsilon_text(case["claimed"]["server"]), name, *server_cells(figures))
            for case in cases
            if case["server"] is not None
            for name, figures in case["server"]["methods"].items()
        ],
    )
    lines += ["", _SERVER_NOTE.format(guessing=_guessing(cases)), ""]
    for name, title in zip(LISTENERS, ("Whoever gets the mixtures, without schedule", "An eavesdropper"), strict=True):
        rows = [
            (case["label"], epsilon_text(case["claimed"][name]), *listener_cells(case[name]))
            for case in cases
            if case[name] is not None
        ]
        if rows:
            lines += [f"## {title}", "", *_table(("setting", "epsilon claimed", *LISTENER_COLUMNS), rows), ""]
    lines += [_LISTENER_NOTE, ""]
    left_out = [f"- {case['label']}, {name}: {why}" for case in cases for name, why in case["left_out"].items()]
    return "\n".join([*lines, *(["Left out:", "", *left_out, ""] if left_out else [])])


_SERVER_NOTE: Final = (
    "PSNR and SSIM are of the median worker. *copied*: the error is a tenth of that of the public mean, or less; "
    "*read*: a classifier trained on public samples reads the right class from the recovered sample; *label*: the "
    "label symbols give it away. Always naming the most frequent class is right in {guessing}. Which method did best "
    "is judged with the truth at hand."
)
_LISTENER_NOTE: Final = (
    "*AUC*: samples that workers hold told from samples that nobody holds, by their nearest mixture (0.5 is guessing); "
    "*hits*: of the held ones, at 1 % false alarms; *clearest*: of the workers whose slots are clearest, how many are "
    "found among all that are held; *unmixed*: groups of slots that lead to the right sample; *beside*: slots in which "
    "the worker next to the eavesdropper was loudest, and was found; *classes*: error of the class shares of the whole "
    "population (total variation), which privacy of one worker does not hide. In the picture, received samples are "
    "shown as bright as the original, and the right way round."
)


def _guessing(cases: list[dict[str, Any]]) -> str:
    rates = {
        f"{100 * figures['guessing']:.1f} %"
        for case in cases
        if case["server"] is not None
        for figures in case["server"]["methods"].values()
    }
    return " or ".join(sorted(rates)) or "none"


def _table(columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    escaped = [tuple(cell.replace("|", "\\|") for cell in row) for row in (columns, *rows)]
    head, *body = (f"| {' | '.join(row)} |" for row in escaped)
    return [head, f"|{'---|' * len(columns)}", *body]


def attack_csv(metrics: dict[str, Any]) -> str:
    """Return all numbers, one line per setting and attack, for other programs."""
    text = io.StringIO()
    rows = [
        _flat(case, adversary, attack, figures)
        for case in metrics["cases"]
        for adversary, attack, figures in _each(case)
    ]
    names = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.DictWriter(text, names, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _each(case: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    server = case["server"]
    found = [] if server is None else [("server", name, figures) for name, figures in server["methods"].items()]
    return [*found, *((name, name, case[name]) for name in LISTENERS if case[name] is not None)]


def _flat(case: dict[str, Any], adversary: str, attack: str, figures: dict[str, Any]) -> dict[str, Any]:
    assert adversary in ADVERSARIES
    flat: dict[str, Any] = {
        "setting": case["label"],
        "adversary": adversary,
        "attack": attack,
        "epsilon_claimed": case["claimed"][adversary],
    }
    for name, value in figures.items():
        inner = value if isinstance(value, dict) else {"": value}
        for key, number in inner.items():
            if isinstance(number, int | float | str):
                flat[f"{name}_{key}".rstrip("_")] = number
    return flat
