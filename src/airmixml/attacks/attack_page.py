"""An attack for its readers, from what its ``metrics.json`` holds."""

from typing import Any, Final

from airmixml.output.cards import claimed_card
from airmixml.output.page import Card, Cards, Folded, Lines, Page
from airmixml.output.tables import Table
from airmixml.scenario import Scenario
from airmixml.wording import epsilon_text, sentence, simulated

_COLUMNS: Final = ("attacker", "what it does", "success", "guessing", "allowed", "certain")
_WORDS: Final = (
    "server: knows the schedule; release: only the mixtures; eavesdropper: listens beside a worker; everyone: hears "
    "each worker without noise; informed: knows all other samples; detects: with the false alarms of guessing; "
    "–: epsilon does not limit it"
)


def attack_page(plain: dict[str, Any], scenario: Scenario) -> Page:
    """Return verdicts, what each adversary does best beside guessing and what epsilon allows, and all figures."""
    cases, lines = plain["cases"], list[str]()
    several = len(cases) > 1
    for case in cases:
        left_out = "; ".join(f"{name} ({why})" for name, why in case["left_out"].items())
        told = [*case["details"], *([f"left out: {left_out}"] if left_out else [])]
        lines += [f"{case['label']}: {line}" if several else line for line in told]
    every = [(case["label"], each) for case in cases for each in case["measured"]]
    summary = Table(
        title="What each adversary does best",
        columns=("setting", *_COLUMNS)[not several :],
        rows=tuple((label, each["attacker"], *each["texts"])[not several :] for label, each in every if each["main"]),
        words=3 if several else 2,
    )
    figures = Table(
        title="All figures",
        columns=("setting", "attack", *_COLUMNS[1:]),
        rows=tuple((label, each["attack"], *each["texts"]) for label, each in every),
    )
    return Page.of_result(
        kind="attack",
        title=f"What adversaries learn of {scenario.title}",
        verdict="" if several else plain["verdict"],
        notices=(sentence(simulated(plain["seed"])),),
        asked=(("settings", ", ".join(case["label"] for case in cases)),),
        results=tuple((case["label"], case["verdict"]) for case in cases) if several else (),
        cards=tuple(Cards(title=case["label"], cards=_cards(case)) for case in cases),
        tables=(summary, Lines((*lines, _WORDS)), Folded(summary="Every attack", parts=(figures,))),
        command=("attack",),
    )


def _cards(case: dict[str, Any]) -> tuple[Card, ...]:
    """Return a card for each adversary: what is claimed, what was found, whom it can name at most."""
    scenario, claimed, cards = Scenario.from_json(case["scenario"]), case["claimed"], []
    for adversary, bound in case["naming_bound"].items():
        informed = case["informed"].get(adversary)
        extra = (
            ("epsilon per row", epsilon_text(case["claimed_per_row"][adversary])),
            *((("found, informed", informed["grade"]),) if informed else ()),
            ("found", (case.get(adversary) or {}).get("grade", "not attacked")),
            ("can name", f"a worker's sample, one of {case['held']:,}, with probability {100 * bound:.3g} % at most"),
        )
        about = {"delta": claimed["delta"], "adjacency": claimed["adjacency"], "extra": extra}
        cards.append(claimed_card(adversary, claimed[adversary], scenario, **about))
    return tuple(cards)
