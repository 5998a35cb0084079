"""What a report says of attacks, audits, plans, comparisons, sweeps, studies of tolerances and reproductions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from airmixml.output.numbers import NONE, epsilon_text, joules, plural
from airmixml.privacy import PrivacyStatement
from airmixml.reports.cards import NEIGHBOURS, NOTHING, asked_for, card_of_claim, cards_of, made_card, meaning
from airmixml.reports.commands import command_for, seeds_option, values_option
from airmixml.reports.content import CardGroup, Content, Drawing, Facts, PrivacyCard
from airmixml.reports.folders import FoundFolder
from airmixml.scenario import Scenario
from airmixml.storage.results import from_plain
from airmixml.wording import simulated

_SIMULATED_SEEDS: Final = "Simulation: noise and schedule follow from the seeds, so anyone can remove them."
_INFINITE: Final = "infinite"


def attack_content(found: FoundFolder) -> Content:
    """Return what an attack folder tells: one group of cards for each setting."""
    plain, scenario = found.plain, found.scenario()
    cases = plain["cases"]
    several = len(cases) > 1
    groups = []
    for case in cases:
        own, claimed = Scenario.from_json(case["scenario"]), case["claimed"]
        told = {"delta": claimed["delta"], "adjacency": claimed["adjacency"]}
        cards = []
        for adversary, bound in case["naming_bound"].items():
            grade = (case.get(adversary) or {}).get("grade")
            named = f"a worker's sample, one of {case['held']:,}, with probability {100 * bound:.3g} % at most"
            extra: Facts = (("found", f"{grade}") if grade else ("found", "not attacked"), ("can name", named))
            if informed := case.get("informed", {}).get(adversary):  # older folders have none
                extra = (("found, informed", informed["grade"]), *extra)
            if "claimed_per_row" in case:
                extra = (("epsilon per row", epsilon_text(case["claimed_per_row"][adversary])), *extra)
            cards.append(card_of_claim(adversary, claimed[adversary], own, **told, extra=extra))
        groups.append(CardGroup(title=case["label"] if several else "", cards=tuple(cards)))
    return Content(
        folder=found.path,
        kind="attack",
        title=f"What adversaries learn of {scenario.title}",
        verdict=plain["verdict"],
        notices=(_sentence(simulated(scenario.seed)),),
        asked=(*_asked(scenario), ("settings", ", ".join(case["label"] for case in cases))),
        results=tuple((case["label"], case["verdict"]) for case in cases),
        cards=tuple(groups),
        pages=found.page("attack.md")[2:] if found.page("attack.md") else (),
        drawings=_one_drawing(found, "attack.png", "What was recovered", plain["verdict"]),
        scenario=scenario,
        command=command_for("attack", scenario),
        made_with=(("device", plain["device"]), ("time", f"{plain['seconds']:.1f} s")),
    )


def audit_content(found: FoundFolder) -> Content:
    """Return what an audit folder tells."""
    plain, scenario = found.plain, found.scenario()
    cards = []
    for each in plain["audits"]:
        lower = f"epsilon is at least {epsilon_text(each['epsilon_lower'])}"
        how = f"{lower} with {100 * each['confidence']:g} % confidence ({each['method']})"
        refuted = "the claim is refuted" if each["caught"] else "the claim is not refuted, which is no proof"
        extra: Facts = (("found", f"{how}; {refuted}"), ("trials", each["trials"]["how"]))
        told = {"delta": each["delta"], "adjacency": each["adjacency"], "extra": extra}
        cards.append(card_of_claim(each["adversary"], each["epsilon_claimed"], scenario, **told))
    trials = plain["audits"][0]["trials"]
    count = trials["with_canary"] + trials["without"]
    fault = ("--fault", plain["fault"]) if plain["fault"] else ()
    return Content(
        folder=found.path,
        kind="audit",
        title=f"Audit of {scenario.title}",
        verdict=plain["verdict"],
        notices=(_sentence(simulated(scenario.seed)),),
        asked=(*_asked(scenario), ("trials", f"{count:,} per adversary"), ("fault", plain["fault"] or "none injected")),
        results=(("verdict", plain["verdict"]),),
        cards=(CardGroup(cards=tuple(cards)),),
        pages=found.page("audit.md")[2:],
        drawings=_one_drawing(
            found, "audit.png", "Claims and lower bounds, and the error rates of the attack", plain["verdict"]
        ),
        scenario=scenario,
        command=command_for("audit", scenario, "--trials", str(count), *fault),
        made_with=(("time", f"{plain['seconds']:.1f} s"),),
    )


def plan_content(found: FoundFolder) -> Content:
    """Return what the folder of a plan tells."""
    plain, scenario = found.plain, found.scenario()
    privacy = scenario.privacy
    results: list[tuple[str, str]] = [("feasible", "yes" if plain["feasible"] else "no")]
    if "energy_joules" in plain:
        results.append(("energy", f"{joules(plain['energy_joules'])} in total"))
        results.append(("per worker", f"{joules(plain['worker_energy_joules'])} mean"))
    target = card_of_claim(
        privacy.adversary,
        privacy.epsilon if plain["feasible"] else None,
        scenario,
        delta=privacy.delta,
        adjacency=privacy.adjacency,
    )
    return Content(
        folder=found.path,
        kind="plan",
        title=f"Plan of {scenario.title}",
        verdict=plain["verdict"],
        asked=_asked(scenario),
        results=tuple(results),
        cards=(CardGroup(cards=(target,)),),
        pages=found.page("plan.md")[2:],
        drawings=_one_drawing(
            found,
            "plan.png",
            "Other designs at the same privacy",
            "Signal, energy and learning noise of other designs; the tables name the best.",
        ),
        scenario=scenario,
        command=command_for("plan", scenario),
        made_with=(("time", f"{plain['seconds']:.1f} s"),),
    )


def comparison_content(found: FoundFolder) -> Content:
    """Return what a comparison tells; cards are those of the scenario itself, tables have every method."""
    plain, scenario = found.plain, found.scenario()
    rows = plain["rows"]
    best = max(rows, key=lambda row: float(row["accuracy"]["mean"]))
    results = [(_label(row), _accuracy(row["accuracy"])) for row in rows]
    options = (
        values_option("--vary", plain["varied"], (_label(row) for row in rows))
        if plain["varied"]
        else ("--methods", ",".join(_label(row) for row in rows))
    )
    return Content(
        folder=found.path,
        kind="comparison",
        title=f"{scenario.title} at several values of {plain['varied']}"
        if plain["varied"]
        else f"{scenario.title} and its alternatives",
        verdict=f"The most accurate is {_label(best)} with {_accuracy(best['accuracy'])}.",
        notices=(_SIMULATED_SEEDS,),
        asked=(*_asked(scenario), ("compared", ", ".join(map(_label, rows))), ("seeds", _seeds(plain))),
        results=tuple(results),
        cards=tuple(CardGroup(title=_label(row), cards=_exposed(row, scenario)) for row in rows[:1]),
        pages=found.page("compare.md"),
        drawings=_one_drawing(
            found,
            "compare.png",
            "Accuracy, epsilon, energy and time of each row",
            f"The rows of the tables as a picture. The most accurate is {_label(best)}.",
        ),
        scenario=scenario,
        command=command_for("compare", scenario, *options, *seeds_option(len(plain["seeds"]))),
        made_with=(("airmixml", plain.get("airmixml", "")),) if plain.get("airmixml") else (),
    )


def _exposed(row: dict[str, Any], scenario: Scenario) -> tuple[PrivacyCard, ...]:
    """Return the cards of a row: what it states, and for other adversaries what it exposes."""
    statements = [from_plain(PrivacyStatement, each) for each in row["privacy"]]
    exposure = dict(row.get("exposure") or {})
    rests_on = exposure.pop("rests_on", "")
    told = {each.adversary for each in statements}
    cards = [card for card in cards_of(statements, scenario) if card.adversary in told]
    delta, adjacency = scenario.privacy.delta, scenario.privacy.adjacency
    for adversary, value in exposure.items():
        if adversary not in told and value is not None:
            epsilon = math.inf if value == _INFINITE else float(value)
            extra: Facts = (("rests on", rests_on),)
            cards.append(card_of_claim(adversary, epsilon, scenario, delta=delta, adjacency=adjacency, extra=extra))
    return tuple(cards)


def sweep_content(found: FoundFolder) -> Content:
    """Return what a sweep tells."""
    plain, scenario = found.plain, found.scenario()
    cells, failures = plain["cells"], plain["failures"]
    grid = tuple((key, ", ".join(map(str, values))) for key, values in plain["grid"].items())
    failed = f"; {plural(sum(failures.values()), 'run')} failed" if failures else ""
    words = [word for key, values in plain["grid"].items() for word in values_option("--grid", key, values)]
    command = () if plain["command"] == "run" else ("--command", plain["command"])
    drawn = next(iter(plain["metrics"]), "")  # none where every cell failed
    return Content(
        folder=found.path,
        kind="sweep",
        title=f"{scenario.title}: {', '.join(plain['grid'])}",
        verdict=f"{plural(len(cells), 'cell')} of airmix {plain['command']}, {_seeds(plain)} each{failed}.",
        notices=tuple(map(_sentence, plain["notes"])),
        asked=(*_asked(scenario), *grid, ("seeds", _seeds(plain))),
        results=tuple((name, _range(cells, name)) for name in plain["metrics"]),
        cards=(CardGroup(cards=_swept_cards(cells, scenario)),),
        pages=found.page("sweep.md"),
        drawings=_one_drawing(
            found,
            "sweep.png",
            f"{drawn} over the grid",
            f"{drawn} at every combination of {', '.join(plain['grid'])}: {_range(cells, drawn)}; "
            "the table has the numbers.",
        ),
        scenario=scenario,
        command=command_for("sweep", scenario, *words, *command, *seeds_option(len(plain["seeds"]))),
    )


def _swept_cards(cells: list[dict[str, Any]], scenario: Scenario) -> tuple[PrivacyCard, ...]:
    """Return for each adversary what its epsilon is over all cells; the worst decides what that promises."""
    cards = []
    names = dict.fromkeys(name for cell in cells for name in cell["metrics"] if name.startswith("epsilon_"))
    deltas = {value for cell in cells if (value := (cell["metrics"].get("delta") or {}).get("mean")) is not None}
    privacy = scenario.privacy
    delta = next(iter(deltas)) if len(deltas) == 1 else privacy.delta
    for name in names:
        adversary = name.removeprefix("epsilon_")
        found = [cell["metrics"].get(name, {}).get("mean") for cell in cells]
        if adversary in ("row", "lower", "claimed") or all(value is None for value in found):
            continue
        worst = math.inf if None in found else max(found)
        least = min(value for value in found if value is not None)
        many = f"{epsilon_text(least)} to {epsilon_text(worst) if math.isfinite(worst) else 'none'}"
        facts: Facts = (
            ("delta", f"{delta:.3g}"),
            ("neighbours", NEIGHBOURS.get(privacy.adjacency, privacy.adjacency)),
        )
        worst_cell = meaning(worst, delta, privacy.adjacency) if math.isfinite(worst) else _sentence(NOTHING)
        text = epsilon_text(least) if least == worst else many
        cards.append(made_card(adversary, worst, scenario, f"Worst cell: {worst_cell}", facts, text=text))
    return tuple(cards)


def tolerances_content(found: FoundFolder) -> Content:
    """Return what a study of tolerances tells."""
    plain, scenario = found.plain, found.scenario()
    privacy, rows = scenario.privacy, plain["tolerances"]
    results = [("on the ideal air", f"{plain['ideal']['mean']:.2f} %")]
    for each in rows:
        tolerated = "none" if each["tolerated"] is None else f"{each['tolerated']:g} {each['unit']}".strip()
        results.append((each["name"], each["why_not"] or f"tolerated: {tolerated}"))
    target = plain["target_epsilon"]
    card = card_of_claim(privacy.adversary, target, scenario, delta=privacy.delta, adjacency=privacy.adjacency)
    return Content(
        folder=found.path,
        kind="study of tolerances",
        title=f"How bad each impairment may get: {scenario.title}",
        notices=(_sentence(simulated(scenario.seed)),),
        asked=(*_asked(scenario), ("may fall by", f"{plain['drop']:g} points"), ("seeds", _seeds(plain))),
        results=tuple(results),
        cards=(CardGroup(cards=(card,)),),
        pages=found.page("tolerances.md"),
        drawings=_one_drawing(
            found,
            "tolerances.png",
            "Accuracy against the size of each impairment",
            "How accuracy falls as each impairment grows; the table says up to which size it is tolerated.",
        ),
        scenario=scenario,
        command=command_for(
            "tolerances",
            scenario,
            "--drop",
            f"{plain['drop']:g}",
            "--only",
            ",".join(each["key"].removeprefix("air.") for each in rows),
            "--seeds",
            str(len(plain["seeds"])),
        ),
    )


def reproduction_content(found: FoundFolder) -> Content:
    """Return what a reproduction tells."""
    plain = found.plain
    pictures = sorted(found.path.glob("*.png"))
    quick = ("--quick",) if plain["quick"] else ()
    verdicts: dict[str, int] = {}
    for cell in plain["cells"]:
        if verdict := str(cell.get("verdict") or "").partition(" from")[0]:
            verdicts[verdict] = verdicts.get(verdict, 0) + 1
    return Content(
        folder=found.path,
        kind="reproduction",
        title="The paper, run again",
        notices=(_SIMULATED_SEEDS,),
        asked=(("reproduced", ", ".join(plain["targets"])), ("seeds", plural(plain["seeds"], "seed"))),
        results=tuple((verdict, plural(count, "value")) for verdict, count in verdicts.items()),
        pages=found.page("report.md")[1:],
        drawings=tuple(
            Drawing(
                path=path,
                caption=path.stem,
                shows=f"{path.stem}: measured values beside the printed ones; the tables below have the numbers.",
            )
            for path in pictures
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


def _asked(scenario: Scenario) -> Facts:
    radio = scenario.radio
    return (
        ("data", scenario.workers.dataset),
        ("workers", f"{scenario.workers.count:,}, {radio.scheduled:,} at a time in {plural(radio.slots, 'slot')}"),
        ("privacy target", asked_for(scenario)),
    )


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"


def _label(row: dict[str, Any]) -> str:
    return str(row["method"] if "method" in row else row["value"])


def _accuracy(found: dict[str, Any]) -> str:
    spread = "" if found["deviation"] is None else f" ± {100 * found['deviation']:.2f}"
    return f"{100 * found['mean']:.2f}{spread} %"


def _seeds(plain: dict[str, Any]) -> str:
    return plural(len(plain["seeds"]), "seed")


def _range(cells: list[dict[str, Any]], name: str) -> str:
    """Return the smallest and the largest mean of a metric over all cells."""
    found = [cell["metrics"].get(name, {}).get("mean") for cell in cells]
    known = [float(value) for value in found if value is not None]
    if not known:
        return NONE
    texts = [_metric(name, value) for value in (min(known), max(known))]
    return " to ".join(dict.fromkeys(texts))


def _metric(name: str, value: float) -> str:
    if name.endswith("_joules") or "_joules." in name:
        return joules(value)
    return f"{100 * value:.2f} %" if name.startswith("accuracy.") and name != "accuracy.best_epoch" else f"{value:.4g}"


def _one_drawing(found: FoundFolder, name: str, caption: str, shows: str) -> tuple[Drawing, ...]:
    path = found.path / name
    return (Drawing(path=path, caption=caption, shows=shows),) if path.is_file() else ()
