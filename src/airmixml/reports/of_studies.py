"""What a report says of attacks, audits, plans, comparisons, sweeps, studies of tolerances and reproductions."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, Final

from airmixml.output.page import Card, Cards, Lines, Part, Rows
from airmixml.privacy import PrivacyStatement
from airmixml.reports.cards import asked_for, cards_of, claimed_card
from airmixml.reports.content import Content, picture_in
from airmixml.reports.folders import FoundFolder, command_for, seeds_option, values_option
from airmixml.reports.records import shown, table_of
from airmixml.scenario import Scenario
from airmixml.storage.files import from_plain
from airmixml.wording import (
    NONE,
    duration,
    epsilon_text,
    joules,
    plural,
    quick_reproduction,
    sentence,
    simulated,
)

_SIMULATED_SEEDS: Final = "Simulation: noise and schedule follow from the seeds, so anyone can remove them."
_INFINITE: Final = "infinite"
_TABLES: Final = "the tables have the numbers"
_BESIDE_PRINT: Final = "measured values beside the printed ones"
_PICTURES: Final = {  # what stands below each, and what it shows
    "attack": ("What was recovered", "Originals beside what each adversary recovered"),
    "audit": (
        "Claims and lower bounds, and the error rates of the attack",
        "Epsilons claimed and found, on a line each",
    ),
    "plan": ("Other designs at the same privacy", "Signal, energy and learning noise of other designs"),
    "compare": ("Accuracy, epsilon, energy and time of each row", "The rows of the table as a picture"),
    "sweep": ("The first metric over the grid", "The first metric at every combination of the values"),
    "tolerances": ("Accuracy against the size of each impairment", "How accuracy falls as each impairment grows"),
}


def attack_content(found: FoundFolder) -> Content:
    """Return what an attack folder tells: one group of cards for each setting."""
    plain, scenario = found.plain, found.scenario()
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
        found,
        scenario,
        title=f"What adversaries learn of {scenario.title}",
        verdict=plain["verdict"],
        more_asked=(("settings", ", ".join(case["label"] for case in cases)),),
        results=tuple((case["label"], case["verdict"]) for case in cases),
        cards=tuple(Cards(title=case["label"], cards=_attacked(case)) for case in cases),
        tables=(*((Lines(told),) if told else ()), summary_of(read), *tables, Lines(notes)),
        command=command_for("attack", scenario),
        made_with=(("device", plain["device"]), _seconds(plain)),
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


def audit_content(found: FoundFolder) -> Content:
    """Return what an audit folder tells."""
    plain, scenario = found.plain, found.scenario()
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
        found,
        scenario,
        title=f"Audit of {scenario.title}",
        verdict=plain["verdict"],
        more_asked=(("trials", f"{count:,} per adversary"), ("fault", plain["fault"] or "none injected")),
        results=(("verdict", plain["verdict"]),),
        cards=(Cards(title=scenario.title, cards=tuple(cards)),),
        tables=tuple(tables),
        command=command_for(
            "audit", scenario, "--trials", str(count), *(("--fault", plain["fault"]) if plain["fault"] else ())
        ),
        made_with=(_seconds(plain),),
    )


def plan_content(found: FoundFolder) -> Content:
    """Return what the folder of a plan tells."""
    plain, scenario = found.plain, found.scenario()
    from airmixml.planning.plan_page import plan_parts  # here: it loads torch, which other reports need not

    results: list[tuple[str, str]] = [("feasible", "yes" if plain["feasible"] else "no")]
    if "energy_joules" in plain:
        results.append(("energy", f"{joules(plain['energy_joules'])} in total"))
        results.append(("per worker", f"{joules(plain['worker_energy_joules'])} mean"))
    return _study(
        found,
        scenario,
        title=f"Plan of {scenario.title}",
        verdict=plain["verdict"],
        notices=(),
        results=tuple(results),
        cards=_target(scenario, scenario.privacy.epsilon if plain["feasible"] else None),
        tables=tuple(plan_parts(plain, scenario, command_for("run", scenario))),
        command=command_for("plan", scenario),
        made_with=(_seconds(plain),),
    )


def comparison_content(found: FoundFolder) -> Content:
    """Return what a comparison tells; cards are those of the scenario itself, tables have every method."""
    plain, scenario = found.plain, found.scenario()
    from airmixml.compare.comparison_page import adversaries_table, costs_table, legend_table, methods_table

    rows = plain["rows"]
    accuracies = {row["method"]: shown("accuracy", row["accuracy"]) for row in rows}
    methods = ("--methods", ",".join(accuracies))
    return _study(
        found,
        scenario,
        title=f"{scenario.title} and its alternatives",
        verdict=plain["verdict"],
        notices=(_SIMULATED_SEEDS,),
        more_asked=(("compared", ", ".join(accuracies)), ("seeds", _seeds(plain))),
        results=tuple(accuracies.items()),
        cards=tuple(Cards(title=row["method"], cards=_exposed(row, scenario)) for row in rows[:1]),
        tables=(
            methods_table(plain, scenario),
            Lines(tuple(map(sentence, plain["notes"]))),
            legend_table(plain),
            adversaries_table(plain, scenario),
            costs_table(plain, scenario),
        ),
        command=command_for("compare", scenario, *methods, *seeds_option(len(plain["seeds"]))),
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


def sweep_content(found: FoundFolder) -> Content:
    """Return what a sweep tells."""
    plain, scenario = found.plain, found.scenario()
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
        found,
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
        command=command_for("sweep", scenario, *words, *command, *seeds_option(len(plain["seeds"]))),
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


def tolerances_content(found: FoundFolder) -> Content:
    """Return what a study of tolerances tells."""
    plain, scenario = found.plain, found.scenario()
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
        found,
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
        command=command_for("tolerances", scenario, *words),
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


def reproduction_content(found: FoundFolder) -> Content:
    """Return what a reproduction tells."""
    plain = found.plain
    verdicts = Counter(str(cell.get("verdict") or "").partition(" from")[0] for cell in plain["cells"])
    left_out = {"curve", "errors", "why"}
    cells = [{name: value for name, value in cell.items() if name not in left_out} for cell in plain["cells"]]
    quick = ("--quick",) if plain["quick"] else ()
    return Content(
        folder=found.path,
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
        pictures=tuple(
            picture
            for name in sorted(path.stem for path in found.path.glob("*.png"))
            for picture in picture_in(found.path, f"{name}.png", name, f"{name}: {_BESIDE_PRINT}; {_TABLES}.")
        ),
        command=("airmix", "reproduce", *plain["targets"], "--seeds", str(plain["seeds"]), *quick),
        made_with=(("airmixml", plain["airmixml"]), ("device", plain["device"])),
    )


CONTENTS: Final[dict[str, Callable[[FoundFolder], Content]]] = {
    "attack": attack_content,
    "audit": audit_content,
    "plan": plan_content,
    "comparison": comparison_content,
    "sweep": sweep_content,
    "tolerances": tolerances_content,
    "reproduction": reproduction_content,
}


def _study(
    found: FoundFolder,
    scenario: Scenario,
    *,
    kind: str = "",
    more_asked: Rows = (),
    notices: Sequence[str] | None = None,
    **others: Any,
) -> Content:
    """Return the content of a study of one scenario, with its picture."""
    asked: Rows = (
        ("data", scenario.workers.dataset),
        ("workers", f"{scenario.workers.count:,}, {scenario.radio.scheduled:,} at a time in {scenario.slots_in_words}"),
        ("privacy target", asked_for(scenario)),
    )
    pictures = (
        picture_in(found.path, f"{name}.png", caption, f"{shows}; {_TABLES}.")
        for name, (caption, shows) in _PICTURES.items()
    )
    return Content(
        folder=found.path,
        kind=kind or found.kind,
        scenario=scenario,
        asked=asked + more_asked,
        notices=(sentence(simulated(scenario.seed)),) if notices is None else tuple(notices),
        pictures=tuple(chain.from_iterable(pictures)),
        **others,
    )


def _target(scenario: Scenario, epsilon: float | None) -> tuple[Cards, ...]:
    """Return the card of the scenario's own target."""
    return (Cards(title=scenario.title, cards=(claimed_card(scenario.privacy.adversary, epsilon, scenario),)),)


def _seeds(plain: dict[str, Any]) -> str:
    return plural(len(plain["seeds"]), "seed")


def _seconds(plain: dict[str, Any]) -> tuple[str, str]:
    return "time", duration(plain["seconds"])


def _range(cells: list[dict[str, Any]], name: str) -> str:
    """Return the smallest and the largest mean of a metric over all cells."""
    found = [cell["metrics"].get(name, {}).get("mean") for cell in cells]
    known = [float(value) for value in found if value is not None]
    return " to ".join(dict.fromkeys(shown(name, value) for value in (min(known), max(known)))) if known else NONE
