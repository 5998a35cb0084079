"""Pages of attacks, audits, plans, comparisons, sweeps, studies of tolerances and reproductions."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from airmixml.output.cards import cards_of, claimed_card
from airmixml.output.commands import seeds_option, values_option
from airmixml.output.page import Card, Cards, Lines, Page, Part, Rows
from airmixml.output.records import shown, table_of
from airmixml.privacy import PrivacyStatement
from airmixml.scenario import Scenario
from airmixml.storage.files import from_plain
from airmixml.wording import (
    NONE,
    epsilon_text,
    plural,
    quick_reproduction,
    sentence,
    simulated,
)

_NO_COLUMNS: Final = ("about", "note", "value", "shown", "guess")  # of a comparison
_SIMULATED_SEEDS: Final = "Simulation: noise and schedule follow from the seeds, so anyone can remove them."
_INFINITE: Final = "infinite"


def attack_page(plain: dict[str, Any], scenario: Scenario) -> Page:
    """Return what an attack folder tells: one group of cards for each setting."""
    from airmixml.attacks.attack_report import read_attack, summary_of, tables_of  # here: it loads torch

    cases = plain["cases"]
    told = tuple(f"{case['label']}: {line}" for case in cases for line in case.get("details", ()))  # older have none
    read = read_attack(plain)
    tables = tables_of(read)
    notes = tuple(
        dict.fromkeys(
            [each.attackers for each in read.cases] + [each.note.replace("*", "") for each in tables if each.note]
        )
    )
    return _study(
        scenario,
        title=f"What adversaries learn of {scenario.title}",
        verdict=plain["verdict"],
        more_asked=(("settings", ", ".join(case["label"] for case in cases)),),
        results=tuple((case["label"], case["verdict"]) for case in cases),
        cards=tuple(Cards(title=case["label"], cards=_attacked(case)) for case in cases),
        tables=(*((Lines(told),) if told else ()), summary_of(read), *tables, Lines(notes)),
        kind="attack",
        command=("attack",),
    )


def _attacked(case: dict[str, Any]) -> tuple[Card, ...]:
    """Return a card for each adversary: what is claimed, what was found, whom it can name at most."""
    scenario, claimed = Scenario.from_json(case["scenario"]), case["claimed"]
    cards = []
    for adversary, bound in case["naming_bound"].items():
        named = f"a worker's sample, one of {case['held']:,}, with probability {100 * bound:.3g} % at most"
        extra = [("found", (case.get(adversary) or {}).get("grade") or "not attacked"), ("can name", named)]
        if informed := case.get("informed", {}).get(adversary):  # older folders have none
            extra.insert(0, ("found, informed", informed["grade"]))
        if "claimed_per_row" in case:
            extra.insert(0, ("epsilon per row", epsilon_text(case["claimed_per_row"][adversary])))
        told = {"delta": claimed["delta"], "adjacency": claimed["adjacency"], "extra": tuple(extra)}
        cards.append(claimed_card(adversary, claimed[adversary], scenario, **told))
    return tuple(cards)


def audit_page(plain: dict[str, Any], scenario: Scenario) -> Page:
    """Return what an audit folder tells."""
    cards: list[Card] = []
    tables: list[Part] = []
    for each in plain["audits"]:
        lower = f"epsilon is at least {epsilon_text(each['epsilon_lower'])}"
        how = f"{lower} with {100 * each['confidence']:g} % confidence ({each['method']})"
        refuted = "the claim is refuted" if each["caught"] else "the claim is not refuted, which is no proof"
        scope: Rows = (("scope", each["scope"]),) if "scope" in each else ()
        extra: Rows = (*scope, ("found", f"{how}; {refuted}"), ("trials", each["trials"]["how"]))
        epsilon, delta = each["epsilon_claimed"], each["delta"]
        if whole := each.get("whole_run"):  # a card is about all that a run sends
            epsilons = [claim["epsilon"] for claim in whole["claims"] if claim["epsilon"] is not None]
            epsilon, delta = min(epsilons, default=None), whole["delta"]
        told = {"delta": delta, "adjacency": each["adjacency"], "extra": extra}
        cards.append(claimed_card(each["adversary"], epsilon, scenario, **told))
        tables += table_of(f"Claimed against {each['adversary']}", each["claims"], "metrics.json")
        together = f"{100 * each['confidence']:g} % for all adversaries together"
        tables += table_of(f"Lower bounds of {each['adversary']}, {together}", each["bounds"], "metrics.json")
        tables.append(Lines(tuple(each["notes"])))
    trials = plain["audits"][0]["trials"]
    count = trials["with_canary"] + trials["without"]
    return _study(
        scenario,
        title=f"Audit of {scenario.title}",
        verdict=plain["verdict"],
        more_asked=(("trials", f"{count:,} per adversary"), ("fault", plain["fault"] or "none injected")),
        results=(("verdict", plain["verdict"]),),
        cards=(Cards(title=scenario.title, cards=tuple(cards)),),
        tables=tuple(tables),
        kind="audit",
        command=("audit", "--trials", str(count), *(("--fault", plain["fault"]) if plain["fault"] else ())),
    )


def comparison_page(plain: dict[str, Any], scenario: Scenario) -> Page:
    """Return what a comparison tells; cards are those of the scenario itself, tables have every method."""
    rows, varied = plain["rows"], plain["varied"]
    accuracies = {_label(row): shown("accuracy", row["accuracy"]) for row in rows}
    best = _label(max(rows, key=lambda row: float(row["accuracy"]["mean"])))
    untested = f"Highest: {best} with {accuracies[best]}; not tested against chance by the version that made it."
    options = values_option("--vary", varied, accuracies) if varied else ("--methods", ",".join(accuracies))
    columns = [{name: value for name, value in row.items() if name not in _NO_COLUMNS} for row in rows]
    for row in columns:
        if (sent := row.pop("uplink_symbols", None)) is not None:
            row["uplink"] = f"{sent:,} {row.pop('uplink_unit', 'symbols')}"
    named = [{varied or "method": label, **row} for label, row in zip(accuracies, columns, strict=True)]
    abouts = {_label(row): " ".join(filter(None, (row.get("about"), row.get("note")))) for row in rows}
    return _study(
        scenario,
        title=f"{scenario.title} at several values of {varied}" if varied else f"{scenario.title} and its alternatives",
        verdict=plain["verdict"] if "notes" in plain else untested,
        notices=(_SIMULATED_SEEDS,),
        more_asked=(("compared", ", ".join(accuracies)), ("seeds", _seeds(plain))),
        results=tuple(accuracies.items()),
        cards=tuple(Cards(title=_label(row), cards=_exposed(row, scenario)) for row in rows[:1]),
        tables=(
            *table_of("Accuracy, epsilon against each adversary, and costs", named, "compare.json"),
            Lines(tuple(map(sentence, plain.get("notes", ())))),
            Lines(tuple(f"{label}: {about}" for label, about in abouts.items() if about)),
        ),
        kind="comparison",
        command=("compare", *options, *seeds_option(len(plain["seeds"]))),
    )


def _exposed(row: dict[str, Any], scenario: Scenario) -> tuple[Card, ...]:
    """Return the cards of a row: what it states, and for other adversaries what it exposes."""
    statements = [from_plain(PrivacyStatement, each) for each in row["privacy"]]
    exposure = dict(row.get("exposure") or {})
    rests_on = exposure.pop("rests_on", "")
    told = {each.adversary for each in statements}
    cards = [card for card in cards_of(statements, scenario) if card.adversary in told]
    for adversary, value in exposure.items():
        if adversary not in told and value is not None:
            epsilon = math.inf if value == _INFINITE else float(value)
            cards.append(claimed_card(adversary, epsilon, scenario, extra=(("rests on", rests_on),)))
    return tuple(cards)


def sweep_page(plain: dict[str, Any], scenario: Scenario) -> Page:
    """Return what a sweep tells."""
    cells, failures, grid = plain["cells"], plain["failures"], plain["grid"]
    failed = f"; {plural(sum(failures.values()), 'run')} failed" if failures else ""
    words = [word for key, values in grid.items() for word in values_option("--grid", key, values)]
    command = () if plain["command"] == "run" else ("--command", plain["command"])
    rows = [
        {
            **{key: str(value) for key, value in cell["values"].items()},
            **{name: cell["metrics"].get(name, {}) for name in plain["metrics"]},
            "failed": "; ".join(dict.fromkeys(cell["errors"].values())),
        }
        for cell in cells
    ]
    return _study(
        scenario,
        title=f"{scenario.title}: {', '.join(grid)}",
        verdict=f"{plural(len(cells), 'cell')} of airmix {plain['command']}, {_seeds(plain)} each{failed}.",
        notices=tuple(map(sentence, plain["notes"])),
        more_asked=(
            *((key, ", ".join(map(str, values))) for key, values in grid.items()),
            ("seeds", _seeds(plain)),
        ),
        results=tuple((name, _range(cells, name)) for name in plain["metrics"]),
        cards=_swept_cards(cells, scenario),
        tables=table_of(f"Every combination of {', '.join(grid)}", rows, "sweep.csv"),
        kind="sweep",
        command=("sweep", *words, *command, *seeds_option(len(plain["seeds"]))),
    )


def _swept_cards(cells: list[dict[str, Any]], scenario: Scenario) -> tuple[Cards, ...]:
    """Return for each adversary what its epsilon is over all cells; the worst decides what that promises."""
    cards = []
    names = dict.fromkeys(name for cell in cells for name in cell["metrics"] if name.startswith("epsilon_"))
    deltas = {value for cell in cells if (value := (cell["metrics"].get("delta") or {}).get("mean")) is not None}
    delta = next(iter(deltas)) if len(deltas) == 1 else scenario.privacy.delta
    for name in names:
        adversary = name.removeprefix("epsilon_")
        found = [cell["metrics"].get(name, {}).get("mean") for cell in cells]
        if adversary in ("row", "lower", "claimed") or all(value is None for value in found):
            continue
        worst = math.inf if None in found else max(found)
        least = min(value for value in found if value is not None)
        largest = epsilon_text(worst)
        text = " to ".join(dict.fromkeys((epsilon_text(least), largest)))
        cards.append(claimed_card(adversary, worst, scenario, delta=delta, text=text, words="Worst cell: "))
    return (Cards(title="All cells", cards=tuple(cards)),) if cards else ()


def tolerances_page(plain: dict[str, Any], scenario: Scenario) -> Page:
    """Return what a study of tolerances tells."""
    found_sizes = plain["tolerances"]
    results = [("on the ideal air", f"{plain['ideal']['mean']:.2f} %")]
    rows = []
    for each in found_sizes:
        privacy, unit = each["privacy"], each["unit"]
        all_tolerated = each["refused"] is None and not each["why_not"]
        limits = {
            "tolerated": "all" if all_tolerated else _size(each["tolerated"], unit),
            "too much": "none" if all_tolerated else _size(each["refused"], unit),
            "privacy": "not changed" if privacy is None else f"kept up to {_size(privacy['kept'], unit)}",
        }
        held = f"accuracy tolerates {limits['tolerated']}; privacy {limits['privacy']}"
        results.append((each["name"], each["why_not"] or held))
        delivered = {f"{air} has": _delivered(has, unit) for air, has in each["delivered"].items()}
        rows.append({"impairment": each["name"], "key": each["key"], **limits, **delivered})
    only = ",".join(each["key"].removeprefix("air.") for each in found_sizes)
    words = ("--drop", f"{plain['drop']:g}", "--only", only, "--seeds", str(len(plain["seeds"])))
    return _study(
        scenario,
        kind="study of tolerances",
        title=f"How bad each impairment may get: {scenario.title}",
        more_asked=(
            ("may fall by", f"{plain['drop']:g} point{'' if plain['drop'] == 1.0 else 's'}"),
            ("seeds", _seeds(plain)),
        ),
        results=tuple(results),
        cards=_target(scenario, plain["target_epsilon"]),
        tables=(
            *table_of("Sizes that are tolerated, and what hardware has", rows, "tolerances.json"),
            Lines(tuple(f"{each['name']}: {each['hardware']}." for each in found_sizes)),
        ),
        command=("tolerances", *words),
    )


def _size(size: float | None, unit: str) -> str:
    return "nothing" if size is None else f"{size:g} {unit}".strip()


def _delivered(has: dict[str, Any], unit: str) -> str:
    """Return what a class of hardware has of an impairment, and what suffers from that."""
    if has["size"] is None:
        return "nothing of it"
    suffers = [] if has["tolerated"] else ["too much for accuracy"]
    if has["target_kept"] is False:
        suffers.append("no guarantee" if has["epsilon"] is None else f"epsilon {epsilon_text(has['epsilon'])}")
    return f"{_size(has['size'], unit)} ({' and '.join(suffers) or 'tolerated'})"


def reproduction_page(plain: dict[str, Any], _scenario: None) -> Page:
    """Return what a reproduction tells."""
    verdicts = Counter(str(cell.get("verdict") or "").partition(" from")[0] for cell in plain["cells"])
    left_out = {"curve", "errors", "why"}
    cells = [{name: value for name, value in cell.items() if name not in left_out} for cell in plain["cells"]]
    quick = ("--quick",) if plain["quick"] else ()
    return Page.of_result(
        kind="reproduction",
        title="The paper, run again",
        notices=(*((quick_reproduction(plain["targets"]),) if plain["quick"] else ()), _SIMULATED_SEEDS),
        asked=(("reproduced", ", ".join(plain["targets"])), ("seeds", plural(plain["seeds"], "seed"))),
        results=(
            ("measured", plural(len(cells), "value")),
            *((verdict, plural(count, "value")) for verdict, count in verdicts.items() if verdict),
        ),
        tables=(
            *table_of("What the text claims", plain.get("claims", []), "report.json"),
            *table_of("Printed and measured", cells, "report.json"),
        ),
        command=("reproduce", *plain["targets"], "--seeds", str(plain["seeds"]), *quick),
    )


def _study(scenario: Scenario, *, more_asked: Rows = (), notices: Sequence[str] | None = None, **others: Any) -> Page:
    """Return the page of a study of one scenario."""
    said = (sentence(simulated(scenario.seed)),) if notices is None else tuple(notices)
    return Page.of_result(asked=more_asked, notices=said, **others)


def _target(scenario: Scenario, epsilon: float | None) -> tuple[Cards, ...]:
    """Return the card of the scenario's own target."""
    return (Cards(title=scenario.title, cards=(claimed_card(scenario.privacy.adversary, epsilon, scenario),)),)


def _label(row: dict[str, Any]) -> str:
    return str(row.get("method", row.get("value")))


def _seeds(plain: dict[str, Any]) -> str:
    return plural(len(plain["seeds"]), "seed")


def _range(cells: list[dict[str, Any]], name: str) -> str:
    """Return the smallest and the largest mean of a metric over all cells."""
    found = [cell["metrics"].get(name, {}).get("mean") for cell in cells]
    known = [float(value) for value in found if value is not None]
    return " to ".join(dict.fromkeys(shown(name, value) for value in (min(known), max(known)))) if known else NONE
