"""The findings as Markdown and CSV."""

import csv
import io
from typing import Any, Final

from airmixml.attacks.informed_findings import InformedFindings
from airmixml.attacks.listener_findings import ListenerFindings
from airmixml.attacks.results import AttackResult, CaseResult, Found, epsilon_text
from airmixml.attacks.server_attacks import ServerFindings
from airmixml.doors import ATTACKS
from airmixml.output.tables import TextTable

_TITLES: Final[dict[tuple[str, type], str]] = {
    ("server", ServerFindings): "The server, who knows the schedule",
    ("release", ListenerFindings): "The release: mixtures without a schedule",
    ("eavesdropper", ListenerFindings): "An eavesdropper near a worker",
    ("everyone", ListenerFindings): "Everyone: each worker heard without noise, all other samples known",
    ("", InformedFindings): "Informed adversaries: they know all samples but one",
}
_SERVER_NOTE: Final = (
    "PSNR and SSIM are of the median worker. *copied*: the error is a tenth of that of the public mean, or less; "
    "*read*: a classifier trained on public samples reads the right class from the recovered sample; *label*: the "
    "label symbols give it away. Always naming the most frequent class is right in {guessing}. Which method did best "
    "is judged with the truth at hand."
)
_INFORMED_NOTE: Final = (
    "*named*: how often the right one of the candidates is named for a worker, for a row with all its copies, or for a "
    "person; *hits*: how often it is detected that it took part, at 1 % false alarms; *mu*: distance of present and "
    "absent in standard deviations of the noise, of the median target; *guessing*: how often a guess names the right "
    "one; *copies*: the most workers that hold one row. The epsilon per row covers a row with all its copies."
)
_LISTENER_NOTE: Final = (
    "*AUC*: samples that workers hold told from samples that nobody holds, by their likelihood ratio (0.5 is "
    "guessing); *hits*: of the held ones, at 1 % false alarms; *loudest*: of the ten and the hundred workers received "
    "most strongly, how many samples score among the first ten and hundred of all that are held; *clearest*: of the "
    "workers whose slots are clearest, how many are "
    "found among all that are held; *unmixed*: groups of slots that lead to the right sample; *beside*: slots in which "
    "the worker next to the eavesdropper was loudest, and was found; *classes*: error of the class shares of the whole "
    "population (total variation), which privacy of one worker does not hide. In the picture, received samples are "
    "shown as bright as the original, and the right way round."
)
_NOTES: Final[dict[type, str]] = {ListenerFindings: _LISTENER_NOTE, InformedFindings: _INFORMED_NOTE}
_LEGEND: Final = {
    "per row": "epsilon of a row with all its copies",
    "copied": "recovered almost exactly",
    "read": "class read from the recovered sample",
    "AUC": "held samples told from others; 0.50 is guessing",
    "hits": "samples detected at 1 % false alarms",
    "loudest": "of the 10 (100) workers received most strongly, those among the first 10 (100) scores",
    "clearest": "workers in the clearest slots whose sample is named",
    "unmixed": "groups of slots that lead to a sample",
    "beside": "slots in which the worker next to the eavesdropper is named",
    "classes": "error of the class shares of all workers",
    "named": "right candidate named",
    "method": "informed ones know all samples but one, the schedule (not the release) and, as listeners, all phases",
    "mu": "present against absent, in standard deviations of the noise",
}


def tables_of(result: AttackResult) -> list[TextTable]:
    """Return one table for each adversary and kind of findings, with a row for each setting and attack."""
    found: dict[tuple[str, type], list[tuple[CaseResult, Found]]] = {}
    for case in result.cases:
        for each in case.found.values():
            adversary = "" if isinstance(each.findings, InformedFindings) else each.adversary  # one table for all
            found.setdefault((adversary, type(each.findings)), []).append((case, each))
    return [_table(*kind, rows) for kind, rows in found.items()]


def legend(result: AttackResult) -> list[str]:
    """Return what the columns of the tables mean, in short lines for a terminal."""
    columns = {column.partition(",")[0] for table in tables_of(result) for column in table.columns}
    return [f"{column}: {meaning}" for column, meaning in _LEGEND.items() if column in columns]


def _table(adversary: str, kind: type, rows: list[tuple[CaseResult, Found]]) -> TextTable:
    names = dict.fromkeys(each.attack for _, each in rows)
    other = "; ".join(f"{name}: {ATTACKS.load(name).about}" for name in names if (adversary, kind) not in _TITLES)
    method = kind in (ServerFindings, InformedFindings) or len(names) > 1
    cells = dict.fromkeys(column for _, each in rows for column in each.findings.cells())
    return TextTable(
        title=_TITLES.get((adversary, kind), f"{adversary}, {other}"),
        note=_note(kind, rows),
        columns=("setting", "epsilon per worker", "per row", *(("method",) if method else ()), *cells),
        rows=tuple(
            (
                case.label,
                epsilon_text(case.claimed[each.adversary]),
                epsilon_text(case.per_row(each.adversary)),
                *((each.attack,) if method else ()),
                *(each.findings.cells().get(column, "") for column in cells),
            )
            for case, each in rows
        ),
    )


def _note(kind: type, rows: list[tuple[CaseResult, Found]]) -> str:
    if kind in _NOTES:
        return _NOTES[kind]
    rates = {f"{100 * each.findings.guessing:.1f} %" for _, each in rows if isinstance(each.findings, ServerFindings)}
    return _SERVER_NOTE.format(guessing=" or ".join(sorted(rates))) if rates else ""


def attack_markdown(result: AttackResult) -> str:
    """Return verdicts and tables of all cases."""
    lines = ["# What an adversary learns", ""]
    lines += [f"- **{case.label}**: {case.verdict}" for case in result.cases]
    lines += ["", "![originals and what was recovered](attack.png)", ""]
    lines += [table.to_markdown() for table in tables_of(result)]
    left_out = [f"- {case.label}, {name}: {why}" for case in result.cases for name, why in case.left_out.items()]
    return "\n".join([*lines, *(["Left out:", "", *left_out, ""] if left_out else [])])


def attack_csv(result: AttackResult) -> str:
    """Return all numbers, one line per setting and attack, for other programs."""
    text = io.StringIO()
    rows = [_flat(case, each) for case in result.cases for each in case.found.values()]
    names = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.DictWriter(text, names, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _flat(case: CaseResult, found: Found) -> dict[str, Any]:
    flat: dict[str, Any] = {"setting": case.label, "adversary": found.adversary, "attack": found.attack}
    flat["epsilon_claimed"] = case.claimed[found.adversary]
    flat["epsilon_per_row"] = case.per_row(found.adversary)
    # The server's methods share one grade, which is in the JSON.
    figures = found.to_dict() if isinstance(found.findings, ServerFindings) else case.graded(found.attack)
    for name, value in figures.items():
        inner = value if isinstance(value, dict) else {"": value}
        for key, number in inner.items():
            if isinstance(number, int | float | str):
                flat[f"{name}_{key}".rstrip("_")] = number
    return flat
