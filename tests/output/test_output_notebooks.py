"""What notebooks show: small tables, escaped, in the colours of the page; figures without pyplot."""

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from airmixml import Scenario, run, simulate, train
from airmixml.notebook import html_facts, html_lines, html_table
from airmixml.planning.account import account_scenario
from airmixml.planning.known_inputs import InputMoments
from airmixml.planning.plan import make_plan
from airmixml.runs.pictures import draw_statements, run_figure

NASTY = '<script>alert("&")</script>'
PRIVATE = Scenario.preset("private-iris")


class Balanced(HTMLParser):
    """Refuses tags that are not closed in the order in which they were opened; gathers the text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""
        self.feed(html)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in {"div", "strong", "table", "thead", "tbody", "tr", "td", "th", "p", "pre"}
        style = dict(attrs).get("style") or ""
        assert not re.search(r"#[0-9a-f]{3}|black|white|rgb", style)  # no colour of its own: light or dark
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data + " "


@pytest.mark.parametrize(
    "html",
    [
        html_facts(NASTY, {NASTY: NASTY}),
        html_table(NASTY, [NASTY], [[NASTY]]),
        html_lines([NASTY]),
    ],
)
def test_every_text_is_escaped(html: str) -> None:
    assert Balanced(html).text.count(NASTY) == html.count("&lt;script&gt;")
    assert "<script" not in html


@pytest.mark.long
def test_what_a_user_holds_is_shown(tmp_path: Path) -> None:
    scenario = PRIVATE.with_overrides('name="a & c"')
    mixtures = simulate(scenario)
    trained = train(mixtures)
    shown = {
        "epsilon 5, delta 0.01 for a worker": mixtures.report.privacy,
        "Trained model": trained,
        "epsilon at delta = 0.01": account_scenario(scenario, 5, 3),
        "Plan of a & c": make_plan(scenario, 5, 3, InputMoments(mean=0.5, deviation=0.29)),
        "seed 0, simulation": run(scenario, out=tmp_path / "one", pictures=False),
        "2 seeds, simulation": run(scenario, seeds=2, out=tmp_path / "two", pictures=False),
        "seed 0, protection": run(scenario, private=True, out=tmp_path / "real", pictures=False),
    }
    for words, thing in shown.items():
        html = thing._repr_html_()
        assert words in Balanced(html).text
        assert len(html) < 10_000
    protected = shown["seed 0, protection"]._repr_html_()
    assert "SNR" not in protected
    assert "accuracy" not in protected


def test_figures_show_themselves(tmp_path: Path) -> None:
    mixtures = simulate(PRIVATE)
    figure = run_figure(mixtures, train(mixtures).history)
    assert figure._repr_png_().startswith(b"\x89PNG")
    statements = mixtures.report.statements
    drawn = draw_statements(statements, tmp_path / "here.png")
    assert drawn._repr_png_() == (tmp_path / "here.png").read_bytes()
    assert "δ = 0.01" in drawn.get_suptitle()
    assert "δ = 0.001" in draw_statements([replace(each, delta=0.001) for each in statements]).get_suptitle()
