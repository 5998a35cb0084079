"""Whether a difference is more than chance: hand-computed McNemar and t tests, ranks, guessing, rows of the data."""

from __future__ import annotations

import json
import math
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from airmixml import Scenario
from airmixml.compare import Comparison, Outcome, RightRows, Row, Work, compare_methods, load_methods
from airmixml.compare.comparison import difference
from airmixml.compare.comparison_page import comparison_page, write_comparison
from airmixml.compare.methods import Exposure
from airmixml.reports import write_report

IRIS = Scenario.preset("private-iris")
GUESS = "10" * 10  # right on 10 of 20 test rows


@pytest.fixture
def outcome(on_iris: Callable[[str], Outcome]) -> Outcome:
    return on_iris("airmix")


def text(ones: int, of: int = 20) -> str:
    return "1" * ones + "0" * (of - ones)


def compared(outcome: Outcome, folder: Path, **right: list[str]) -> Comparison:
    """A comparison whose methods got these test rows right, with each seed; all keep the target against the server."""
    rows = tuple(
        Row(
            name=name,
            about=f"what {name} is",
            outcomes=tuple(
                replace(outcome, accuracy=each.count("1") / 20, tested=RightRows(right=each, guess=GUESS))
                for each in seeds
            ),
        )
        for name, seeds in right.items()
    )
    return Comparison(scenario=IRIS, rows=rows, seeds=list(range(len(rows[0].outcomes))), kept=0, out=folder)


@pytest.mark.parametrize(
    ("only_first", "only_second", "p_value"),
    [(0, 0, 1.0), (5, 0, 2 / 2**5), (6, 0, 2 / 2**6), (9, 1, 2 * (1 + 10) / 2**10), (4, 4, 1.0)],
)
def test_one_seed_is_mcnemars_exact_test(only_first: int, only_second: int, p_value: float) -> None:
    first = "1" * only_first + "0" * only_second + "1" * 5 + "0" * 5
    second = "0" * only_first + "1" * only_second + "1" * 5 + "0" * 5
    found = difference([first], [second])
    assert found.p_value == pytest.approx(p_value, rel=1e-12)
    assert found.mean == pytest.approx((only_first - only_second) / len(first))


def t_two_sided(t: float) -> float:
    """The two-sided p-value of Student's t with 3 degrees of freedom, in closed form."""
    x = t / math.sqrt(3.0)
    return 1.0 - 2.0 / math.pi * (x / (1.0 + x * x) + math.atan(x))


def test_rows_and_seeds_both_count_in_the_error() -> None:
    # Differences 1 0 0 1 and 1 0 1 0: both seeds have 0.5; the rows have 1, 0, 0.5, 0.5, of variance 0.125.
    alike = difference(["1001", "1010"], ["0000", "0000"])
    assert (alike.mean, alike.error) == (0.5, pytest.approx(math.sqrt(0.125 / 4)))
    assert alike.p_value == pytest.approx(t_two_sided(0.5 / math.sqrt(0.125 / 4)), rel=1e-9)
    # Differences 1 1 1 1 and 0 0 0 0: every row has 0.5, the seeds 1 and 0, of variance 0.5.
    unlike = difference(["1111", "0000"], ["0000", "0000"])
    assert (unlike.mean, unlike.error) == (0.5, pytest.approx(math.sqrt(0.5 / 2)))
    assert unlike.p_value == pytest.approx(1.0 - 2.0 / math.pi * math.atan(1.0))  # t = 1, 1 degree: Cauchy


def test_a_tie_is_not_won(outcome: Outcome, tmp_path: Path) -> None:
    """One test row more of 20 is chance (p = 1); nine more are not (p = 2 / 512)."""
    found = compared(outcome, tmp_path, one=[text(19)], two=[text(18)], three=[text(10)])
    assert "one (95.00 %) and two (90.00 %) are equal within chance" in found.verdict
    assert "1 seed, 20 test rows; --seeds 10" in found.verdict
    assert "most accurate" not in found.verdict.lower()
    won = compared(outcome, tmp_path, one=[text(19)], three=[text(10)])
    assert "one (95.00 %) is the most accurate, beyond chance" in won.verdict
    assert "--seeds" not in won.verdict


def test_the_sentence_names_the_best_and_what_it_does_not_beat(outcome: Outcome, tmp_path: Path) -> None:
    """By hand, of 20 rows: five more are chance (p = 1/16), six are not (p = 1/32)."""
    best, near, twin = text(20), "0" * 6 + "1" * 14, text(14)
    found = compared(outcome, tmp_path, best=[best], near=[near], twin=[twin], close=[text(15)])
    assert "best (100.00 %) and close (75.00 %) are equal within chance" in found.verdict
    # 12 rows against 4 are chance (p = 0.077), 8 against none are not.
    first, apart, inside = text(16), "0" * 12 + "1" * 8, text(8)
    assert difference([first], [apart]).p_value > 0.05 > difference([first], [inside]).p_value
    level = compared(outcome, tmp_path, first=[first], inside=[inside], apart=[apart], far=["0" * 20])
    assert "first (80.00 %) and apart (40.00 %) are equal within chance" in level.verdict
    # What does not keep the target is not the best, however accurate.
    weak = replace(level.rows[0].first.privacy[0], epsilon=50.0)
    nothing = Exposure(server=50.0, eavesdropper=50.0, everyone=math.inf, rests_on="receiver noise")
    exposed = replace(level.rows[0].first, privacy=(weak,), exposure=nothing, accuracy=1.0)
    other = replace(
        level.rows[0], name="other", outcomes=(replace(exposed, tested=RightRows(right=best, guess=GUESS)),)
    )
    more = replace(level, rows=(*level.rows, other))
    assert more.verdict.startswith("Within the target against the server first (80.00 %) and apart")


def test_the_sentence_counts_a_long_list(outcome: Outcome, tmp_path: Path) -> None:
    many = compared(outcome, tmp_path, **{f"m{number}": [text(18)] for number in range(5)})
    assert "m0 (90.00 %) and 4 others are equal within chance" in many.verdict


def test_no_better_than_guessing_is_said_as_a_run_says_it(outcome: Outcome, tmp_path: Path) -> None:
    found = compared(outcome, tmp_path, good=["1" * 20], bad=["0" * 18 + "11"])
    assert [row.no_better_than_guessing for row in found.rows] == [False, True]
    assert "No better than guessing (50 %): bad" in printed(found)
    assert [row["no_better_than_guessing"] for row in found.to_dict()["rows"]] == [False, True]


def test_right_rows_and_the_guess_are_those_of_the_test_set(on_iris: Callable[[str], Outcome]) -> None:
    work = Work(scenario=IRIS)
    for name in ("airmix", "raw", "logistic", "local-dp", "dp-logistic"):
        gave = on_iris(name)
        assert gave.tested.right.count("1") / 50 == pytest.approx(gave.accuracy)
        labels = work.load(IRIS.workers)[0].test_labels.tolist()
        most = max(range(3), key=labels.count)
        assert gave.tested.guess == "".join("1" if label == most else "0" for label in labels)


def printed(found: Comparison) -> str:
    return " ".join(comparison_page(found.to_dict(), found.scenario).to_markdown().split())


def test_every_screen_says_the_same(tmp_path: Path) -> None:
    methods = load_methods("airmix", "masked", "dp-logistic", "raw")
    compare_methods(IRIS, methods, out=tmp_path / "out")
    found = compare_methods(IRIS, methods, out=tmp_path / "out")  # as read from the files
    assert found.kept == 4
    write_comparison(found.to_dict(), found.scenario, found.out)
    page = write_report(tmp_path / "out").read_text(encoding="utf-8")
    plain = json.loads((tmp_path / "out" / "compare.json").read_text())
    assert plain["verdict"] == found.verdict
    markdown = (tmp_path / "out" / "compare.md").read_text()
    for told in (printed(found), " ".join(markdown.split()), " ".join(page.split())):
        assert found.verdict in told
        assert "held by up to 34 workers" in told
        assert all(str(row.about) in told for row in found.rows)


def test_what_runs_on_the_ideal_air_is_said(tmp_path: Path) -> None:
    found = compare_methods(IRIS.on_air("line-of-sight"), load_methods("airmix", "adassp"), out=tmp_path / "out")
    assert "on the ideal air: adassp" in found.notes
    assert not any("ideal air" in (row.about or "") for row in found.rows)


def test_the_names_of_methods_and_columns_are_explained(outcome: Outcome, tmp_path: Path) -> None:
    shown = printed(compared(outcome, tmp_path, one=[text(19)], two=[text(18)]))
    assert "what one is" in shown
    assert "rests on" in shown
    assert "receiver noise" in shown


@pytest.mark.long
def test_all_methods_fit_one_screen(airmix: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    done = airmix("compare", "--preset", "private-iris", columns=80)
    assert done.returncode == 0, done.stderr
    heights = [max(1, math.ceil(len(line.rstrip()) / 80)) for line in done.stdout.splitlines()]
    assert sum(heights) <= 48, done.stdout
    assert "no better than guessing (40 %)" in " ".join(done.stdout.split())
    assert "report.html" in done.stdout
