"""Write the tables of docs/attacks.md and docs/attack-measurements.md from benchmarks/results/attacks.json.

Each table stands below its mark, ``<!-- table: NAME -->``.

python benchmarks/attack_tables.py
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from airmixml.attacks.attack_report import epsilon_text
from airmixml.attacks.grades import TOO_FEW, grade_of, naming_bound

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "attacks.json"
DOCUMENTS = tuple(ROOT / "docs" / name for name in ("attacks.md", "attack-measurements.md"))
METHODS = ("least-squares", "non-negative", "prior")
ACCOUNTANTS = ("paper-loose", "paper-tight", "rdp", "pld", "gdp")
BOUNDS = ("clopper-pearson", "gaussian", "normal scores", "one run")

COLUMNS = (
    "AUC", "hits", "loudest 10", "loudest 100", "clearest workers", "unmixed", "neighbour", "class share error",
)  # fmt: skip
OF_MIXTURES = ("unmixed", "class share error")

Result = dict[str, Any]


def table(head: list[str], lines: list[list[str]]) -> str:
    every = [head, ["---"] * len(head), *lines]
    return "\n".join("| " + " | ".join(line) + " |" for line in every)


def percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def grade(case: Result, adversary: str) -> str:
    """Return the grade; older results judged by epsilon alone where nothing was found."""
    found, claimed = case[adversary]["grade"], case["claimed"]
    if "claimed_per_row" in case:
        return str(found)
    bound = naming_bound(claimed[adversary], claimed["delta"], claimed["adjacency"], case.get("held", case["workers"]))
    return grade_of(found if found in ("leaks", "exposed") else "", bound, too_few=found == TOO_FEW)


def out_of(found: Result | None) -> str:
    return f"{found['identified']} of {found['looked_at']}" if found and found["looked_at"] else "–"


def listener_cells(figures: Result) -> list[str]:
    """Return the texts of one attack without a schedule, in the order of the columns below."""
    linkage, clearest, unmixing, beside, shares = (
        figures[name] for name in ("linkage", "clearest_slots", "unmixing", "beside", "shares")
    )
    return [
        f"{linkage['auc']:.2f}",
        f"{100 * linkage['hit_rate']:.1f} %",
        out_of(figures.get("loudest")),
        out_of(figures.get("loudest_hundred")),
        out_of(clearest),
        f"{unmixing['identified']:,} of {unmixing['estimates']:,}",
        out_of(beside),
        "–" if shares is None else f"{100 * shares['distance']:.1f} %",
    ]


def server(results: Result) -> str:
    lines = []
    for case in results["gallery"]["cases"]:
        methods = case["server"]["methods"]
        prior = methods["prior"]
        lines.append(
            [
                case["label"],
                epsilon_text(case["claimed"]["server"]),
                *(percent(methods[name]["recognised_share"]) if name in methods else "–" for name in METHODS),
                f"{prior['psnr_db']['median']:.1f} dB",
                f"{prior['ssim']['median']:.2f}",
                percent(max(each["copied_share"] for each in methods.values())),
                percent(max(each["labels"]["accuracy"] for each in methods.values())),
                grade(case, "server"),
            ]
        )
    head = ["setting", "epsilon, server", *(f"read, {name}" for name in METHODS)]
    return table([*head, "PSNR, prior", "SSIM, prior", "copied", "labels", "grade"], lines)


def slots(results: Result) -> str:
    lines = []
    for case in results["slots"]["cases"]:
        methods = case["server"]["methods"]
        lines.append(
            [
                f"{case['slots']:,}",
                *(
                    f"{methods[name]['psnr_db']['median']:.1f} dB, {percent(methods[name]['recognised_share'])}"
                    for name in METHODS
                ),
            ]
        )
    return table(["slots", *METHODS], lines)


def listeners(name: str, *adversaries: str) -> Callable[[Result], str]:
    def write(results: Result) -> str:
        heard = [(case, each) for case in results.get(name, {}).get("cases", []) for each in adversaries]
        rows = [
            (case, each, dict(zip(COLUMNS, listener_cells(case[each]), strict=True)))
            for case, each in heard
            if case.get(each)
        ]
        kept = () if "everyone" in adversaries else OF_MIXTURES  # who hears workers apart has no mixtures
        shown = [
            column
            for column in COLUMNS
            if column in kept or any(cells[column] not in ("–", "0 of 0") for *_, cells in rows)
        ]
        several = len(adversaries) > 1
        lines = [
            [
                case["label"],
                *([each] if several else []),
                epsilon_text(case["claimed"][each]),
                *(cells[column] for column in shown),
                grade(case, each),
            ]
            for case, each, cells in rows
        ]
        head = ["setting", *(["adversary"] if several else []), "epsilon"]
        return table([*head, *shown, "grade"], lines) if lines else ""

    return write


def informed(results: Result) -> str:
    lines = []
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
    head = ["preset", "informed", "copies", "epsilon per worker", "per row", "named: worker", "row"]
    return table([*head, "hits: worker", "row", "mu: worker", "row", "grade"], lines) if lines else ""


def seeds(results: Result) -> str:
    lines = []
    for name in ("gallery", "seed 1", "seed 2", "seed 3"):
        case = next(each for each in results[name]["cases"] if each["label"] in ("paper-mnist", "epsilon 10"))
        prior, heard = case["server"]["methods"]["prior"], case["eavesdropper"]
        lines.append(
            [
                str(results[name]["seed"]),
                percent(prior["recognised_share"]),
                percent(prior["labels"]["accuracy"]),
                *listener_cells(case["release"])[:2],
                *listener_cells(heard)[4:7],
            ]
        )
    head = ["seed", "server reads", "server infers labels", "release AUC", "release hits"]
    return table([*head, "eavesdropper, clearest", "unmixed", "neighbour"], lines)


def audited(results: Result) -> list[tuple[str, Result]]:
    """Return every audit of a mechanism without an injected fault, with its setting."""
    named = [(name.removeprefix("audit "), result) for name, result in results.items() if name.startswith("audit ")]
    return [(name, audit) for name, result in named for audit in result["audits"]]


def audits(results: Result) -> str:
    lines = [
        [
            name,
            audit["adversary"],
            f"{audit['adjacency']}, {audit['delta']:g}",
            _epsilon(audit["epsilon_claimed"]),
            _epsilon(audit["epsilon_lower"]),
            f"{100 * audit['epsilon_lower'] / audit['epsilon_claimed']:.0f} %",
        ]
        for name, audit in audited(results)
    ]
    return table(["setting", "against", "neighbours, delta", "smallest claim", "lower bound", "reached"], lines)


def bounds(results: Result) -> str:
    lines = []
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
    return table(["setting", "against", *ACCOUNTANTS, *(f"found: {name}" for name in BOUNDS)], lines)


def faults(results: Result) -> str:
    lines = [
        [
            name.removeprefix("fault "),
            audit["adversary"],
            _epsilon(audit["epsilon_claimed"]),
            _epsilon(audit["epsilon_lower"]),
            "**caught**" if audit["caught"] else "not caught",
        ]
        for name, result in results.items()
        if name.startswith("fault ")
        for audit in result["audits"]
    ]
    return table(["injected fault", "against", "smallest claim", "lower bound", ""], lines)


def commands(results: Result) -> str:
    return table(["results", "command"], [[name, f"`{result['command']}`"] for name, result in results.items()])


def _epsilon(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}" if value < 1e4 else f"{value:.1e}"


TABLES: dict[str, Callable[[Result], str]] = {
    "server": server,
    "release": listeners("gallery", "release"),
    "eavesdropper": listeners("gallery", "eavesdropper"),
    "everyone": listeners("gallery", "everyone"),
    "trustless": listeners("trustless", "eavesdropper", "everyone"),
    "slots": slots,
    "alpha": listeners("alpha", "release", "eavesdropper"),
    "distance": listeners("distance", "eavesdropper"),
    "distance, private-mnist": listeners("distance, private-mnist", "eavesdropper"),
    "informed": informed,
    "seeds": seeds,
    "audits": audits,
    "bounds": bounds,
    "faults": faults,
    "commands": commands,
}


def with_tables(text: str, results: Result) -> str:
    """Return the document with each table that it marks as the results give it."""
    for name, write in TABLES.items():
        pattern = re.compile(rf"(<!-- table: {name} -->\n)(?:\|[^\n]*\n)*")
        content = write(results)
        below = f"{content}\n" if content else ""  # not measured yet
        text = pattern.sub(lambda found, below=below: found[1] + below, text)
    return text


if __name__ == "__main__":
    known = json.loads(RESULTS.read_text(encoding="utf-8"))
    for document in DOCUMENTS:
        document.write_text(with_tables(document.read_text(encoding="utf-8"), known), encoding="utf-8")
