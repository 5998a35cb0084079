"""Write the tables of docs/attacks.md, benchmarks/results/attacks/*.csv and a picture from results/attacks.json.

python benchmarks/attack_tables.py
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from airmixml.messages import epsilon_text
from airmixml.output.figures import COLOURS, finish_axis, new_figure, save_figure, shared_legend
from doc_tables import Table, write_tables

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "attacks.json"
DOCUMENT, FOLDER = ROOT / "docs" / "attacks.md", RESULTS.with_suffix("")
PICTURE = ROOT / "docs" / "images" / "attack-alpha.png"
METHODS = ("least-squares", "non-negative", "prior")
ACCOUNTANTS = ("paper-loose", "paper-tight", "rdp", "pld", "gdp")
BOUNDS = ("clopper-pearson", "normal scores")

COLUMNS = ("AUC", "detected", "strongest 10", "named", "neighbour")
SHOWN_INFORMED = {
    ("private-iris", "server"),
    ("private-table", "server"),
    ("paper-mnist", "server"),
    ("private-mnist", "server"),
    ("private-mnist", "eavesdropper"),
    ("trustless-mnist", "everyone"),
}

Result = dict[str, Any]


def percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def out_of(found: Result | None) -> str:
    return f"{found['identified']} of {found['looked_at']}" if found and found["looked_at"] else "–"


def listener_cells(figures: Result) -> list[str]:
    """Return the texts of one attack without a schedule, in the order of the columns."""
    linkage = figures["linkage"]
    return [
        f"{linkage['auc']:.2f}",
        f"{100 * linkage['hit_rate']:.1f} %",
        *(out_of(figures[name]) for name in ("loudest", "clearest_slots", "beside")),
    ]


def server(results: Result) -> Table:
    lines: list[list[str]] = []
    for case in results["gallery"]["cases"]:
        methods = case["server"]["methods"]
        prior = methods["prior"]
        lines.append(
            [
                case["label"],
                epsilon_text(case["claimed"]["server"]),
                *(percent(methods[name]["recognised_share"]) if name in methods else "–" for name in METHODS),
                f"{prior['psnr_db']:.1f} dB",
                percent(max(each["copied_share"] for each in methods.values())),
                percent(max(each["labels"]["accuracy"] for each in methods.values())),
                case["server"]["grade"],
            ]
        )
    head = ["setting", "epsilon, server", *(f"read, {name}" for name in METHODS)]
    return [*head, "PSNR, prior", "copied", "labels", "grade"], lines


def slots(results: Result) -> Table:
    lines: list[list[str]] = []
    for case in results["slots"]["cases"]:
        methods = [case["server"]["methods"][name] for name in METHODS]
        shares = (
            percent(share) for each in methods for share in (each["recognised_share"], each["labels"]["accuracy"])
        )
        lines.append([f"{case['slots']:,}", *(f"{each['psnr_db']:.1f} dB" for each in methods), *shares])
    figures = [f"{figure}, {name}" for name in METHODS for figure in ("read", "labels")]
    return ["slots", *(f"PSNR, {name}" for name in METHODS), *figures], lines


def listeners(name: str, *adversaries: str) -> Callable[[Result], Table]:
    def write(results: Result) -> Table:
        rows = [
            (case, each, dict(zip(COLUMNS, listener_cells(case[each]), strict=True)))
            for case in results[name]["cases"]
            for each in adversaries
        ]
        shown = [column for column in COLUMNS if any(cells[column] != "–" for *_, cells in rows)]
        several = len(adversaries) > 1
        lines = [
            [
                case["label"],
                *([each] if several else []),
                epsilon_text(case["claimed"][each]),
                *(cells[column] for column in shown),
                case[each]["grade"],
            ]
            for case, each, cells in rows
        ]
        head = ["setting", *(["adversary"] if several else []), "epsilon"]
        return [*head, *shown, "grade"], lines

    return write


def informed(results: Result) -> Table:
    lines: list[list[str]] = []
    for name, result in results.items():
        if not name.startswith("informed "):
            continue
        (case,) = result["cases"]
        for adversary, found in case["informed"].items():
            kinds = [found[whom] for whom in ("worker", "row")]
            lines.append(
                [
                    case["label"],
                    adversary,
                    f"{case['copies']:,}",
                    *(epsilon_text(case[claimed][adversary]) for claimed in ("claimed", "claimed_per_row")),
                    *(f"{100 * each['named']:.1f} %" for each in kinds),
                    *(f"{100 * each['hits']:.1f} %" for each in kinds),
                    *("–" if each["mu_median"] is None else f"{each['mu_median']:.3g}" for each in kinds),
                    found["grade"],
                ]
            )
    kinds_of = [f"{name}: {whom}" for name in ("named", "detected", "mu") for whom in ("worker", "row")]
    return ["preset", "informed", "copies", "epsilon: worker", "epsilon: row", *kinds_of, "grade"], lines


def seeds(results: Result) -> Table:
    lines: list[list[str]] = []
    for name in ("gallery", "seed 1", "seed 2", "seed 3"):
        case = next(each for each in results[name]["cases"] if each["label"] in ("paper-mnist", "epsilon 10"))
        prior, heard = case["server"]["methods"]["prior"], case["eavesdropper"]
        lines.append(
            [
                str(results[name]["seed"]),
                percent(prior["recognised_share"]),
                percent(prior["labels"]["accuracy"]),
                *listener_cells(case["release"])[:2],
                *listener_cells(heard)[3:],
            ]
        )
    head = ["seed", "server reads", "server infers labels", "release AUC", "release detects"]
    return [*head, "eavesdropper names", "neighbour"], lines


def audited(results: Result) -> list[tuple[str, Result]]:
    """Return every audit of a mechanism without an injected fault, with its setting."""
    named = [(name.removeprefix("audit "), result) for name, result in results.items() if name.startswith("audit ")]
    return [(name, audit) for name, result in named for audit in result["audits"]]


def audits(results: Result) -> Table:
    """One line per setting: the smallest claim, the largest lower bound and their ratio, of each adversary."""
    found: dict[str, dict[str, str]] = {}
    for name, audit in audited(results):
        line = found.setdefault(name, {"neighbours": f"{audit['adjacency']}, {audit['delta']:g}"})
        claimed, lower = audit["epsilon_claimed"], audit["epsilon_lower"]
        line[audit["adversary"]] = f"{_epsilon(claimed)}: {_epsilon(lower)} ({100 * lower / claimed:.0f} %)"
    columns = ("neighbours", "release", "server")
    lines = [[name, *(line[column] for column in columns)] for name, line in found.items()]
    return ["setting", "neighbours, delta", "release", "server"], lines


def bounds(results: Result) -> Table:
    lines: list[list[str]] = []
    for name, audit in audited(results):
        claims = {claim["accountant"]: claim["epsilon"] for claim in audit["claims"]}
        found = {bound["method"]: bound["epsilon"] for bound in audit["bounds"]}
        lines.append(
            [
                name,
                audit["adversary"],
                *(_epsilon(claims.get(accountant)) for accountant in ACCOUNTANTS),
                *(_epsilon(found.get(method)) for method in BOUNDS),
            ]
        )
    return ["setting", "against", *ACCOUNTANTS, *(f"found: {name}" for name in BOUNDS)], lines


def faults(results: Result) -> Table:
    """One line per fault: the smallest claim and the lower bound of each adversary."""
    columns = ("release", "server")
    lines = []
    for name, result in results.items():
        if name.startswith("fault "):
            found = {
                audit["adversary"]: f"{_epsilon(audit['epsilon_claimed'])}: {_epsilon(audit['epsilon_lower'])}"
                + (" **caught**" if audit["caught"] else "")
                for audit in result["audits"]
            }
            lines.append([name.removeprefix("fault "), *(found.get(column, "") for column in columns)])
    return ["injected fault", *columns], lines


def commands(results: Result) -> Table:
    return ["results", "command"], [[name, str(result["command"])] for name, result in results.items()]


def gallery(results: Result) -> Table:
    """What every adversary finds in every setting, in a few words each."""
    lines = []
    for case in results["gallery"]["cases"]:
        release, eavesdropper = (
            dict(zip(COLUMNS, listener_cells(case[name]), strict=True)) for name in ("release", "eavesdropper")
        )
        found = {
            "server": percent(case["server"]["methods"]["prior"]["recognised_share"]),
            "release": release["AUC"],
            "eavesdropper": eavesdropper["named"],
        }
        cells = [
            f"{epsilon_text(case['claimed'][name])}: {said}, {case[name]['grade']}" for name, said in found.items()
        ]
        lines.append([case["label"], *cells])
    return ["setting", "server: read", "release: AUC", "eavesdropper: identified"], lines


def informed_in_short(results: Result) -> Table:
    """The rows of a few presets and adversaries, without copies and mu."""
    head, lines = informed(results)
    shown = [place for place, name in enumerate(head) if name != "copies" and not name.startswith("mu")]
    return [head[place] for place in shown], [
        [line[place] for place in shown] for line in lines if tuple(line[:2]) in SHOWN_INFORMED
    ]


def _epsilon(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}" if value < 1e4 else f"{value:.1e}"


SHOWN: dict[str, Callable[[Result], Table]] = {
    "gallery": gallery,
    "informed": informed_in_short,
    "audits": audits,
    "faults": faults,
}
FILES: dict[str, Callable[[Result], Table]] = {
    "server": server,
    "release": listeners("gallery", "release"),
    "eavesdropper": listeners("gallery", "eavesdropper"),
    "everyone": listeners("gallery", "everyone"),
    "trustless": listeners("trustless", "eavesdropper", "everyone"),
    "slots": slots,
    "alpha": listeners("alpha", "release", "eavesdropper"),
    "distance": listeners("distance", "eavesdropper"),
    "distance-private-mnist": listeners("distance, private-mnist", "eavesdropper"),
    "informed": informed,
    "seeds": seeds,
    "bounds": bounds,
    "commands": commands,
}


def made(results: Result) -> tuple[dict[str, Table], dict[str, Table]]:
    """Return the tables of the page and those of the files."""
    shown, files = ({name: write(results) for name, write in each.items()} for each in (SHOWN, FILES))
    return shown, files


def draw_alpha(results: Result, path: Path) -> None:
    """Draw what listeners without a schedule find against alpha, beside guessing."""
    cases = results["alpha"]["cases"]
    alphas = [float(case["label"].removeprefix("alpha ")) for case in cases]
    figure = new_figure(11.0, 3.6)
    panels = (
        ("separates who took part (AUC)", 0.5, lambda found: found["linkage"]["auc"]),
        ("detected, at 1 % false alarms", 0.01, lambda found: found["linkage"]["hit_rate"]),
        ("identified, in the ten clearest slots", 0.0, lambda found: found["clearest_slots"]["identified"] / 10),
    )
    for axis, (title, guessing, of) in zip(figure.subplots(1, len(panels), sharex=True), panels, strict=True):
        for adversary, colour, marker in zip(("release", "eavesdropper"), COLOURS, "os", strict=False):
            axis.plot(alphas, [of(case[adversary]) for case in cases], color=colour, marker=marker, label=adversary)
        axis.axhline(guessing, color="black", linestyle="--", linewidth=1, label="guessing")
        axis.set(xscale="log", xlabel="mixing.alpha", ylim=(-0.04, 1.04))
        finish_axis(axis, title, size=10)
    shared_legend(figure)
    save_figure(figure, path)


if __name__ == "__main__":
    measured = json.loads(RESULTS.read_text(encoding="utf-8"))
    shown, files = made(measured)
    write_tables(DOCUMENT, shown, FOLDER, files)
    draw_alpha(measured, PICTURE)
