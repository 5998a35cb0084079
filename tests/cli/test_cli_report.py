"""``airmix report``, and the report that every command leaves: old folders, several at once, mistakes, failures."""

from __future__ import annotations

import html
import itertools
import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from airmixml.files import is_temporary
from airmixml.output.page import Page
from airmixml.scenario import Scenario

Finished = subprocess.CompletedProcess[str]
Airmix = Callable[..., Finished]
Refused = Callable[..., str]
SMALL = ("run", "--preset", "paper-iris", "--set", "radio.slots=100", "--set", "learner.epochs=2")


@pytest.fixture(scope="module")
def finished_run(airmix_in: Airmix, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One small run, for tests that take a copy of it."""
    folder = tmp_path_factory.mktemp("finished")
    assert airmix_in(*SMALL, "--out", "here", cwd=folder).returncode == 0
    return folder / "here"


@pytest.fixture
def copied(finished_run: Path, tmp_path: Path) -> Callable[[str], Path]:
    return lambda name: Path(shutil.copytree(finished_run, tmp_path / name))


@pytest.mark.long
def test_as_a_process_with_json(run_python: Callable[..., Finished], airmix: Airmix, tmp_path: Path) -> None:
    done = run_python("-m", "airmixml", *SMALL, "--out", "here", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["report"] == "here/report.html"
    first = (tmp_path / "here" / "report.html").read_text(encoding="utf-8")
    assert "<code>airmix run --preset paper-iris --set radio.slots=100 --set learner.epochs=2</code>" in first
    again = airmix("report", "here", "--json")
    assert json.loads(again.stdout) == {"report": "here/report.html", "folders": ["here"]}
    assert (tmp_path / "here" / "report.html").read_text(encoding="utf-8") == first
    assert not [path for path in tmp_path.rglob("*") if is_temporary(path)]


@pytest.mark.long
def test_of_a_folder_without_one(airmix: Airmix, copied: Callable[[str], Path], tmp_path: Path) -> None:
    (copied("here") / "report.html").unlink()
    done = airmix("report", "here")
    assert (done.returncode, done.stdout) == (0, "report: here/report.html\n")
    text = (tmp_path / "here" / "report.html").read_text(encoding="utf-8")
    assert "airmix run --preset paper-iris --set radio.slots=100 --set learner.epochs=2" in text
    assert airmix("report", "here", "--out", "elsewhere.html").stdout == "report: elsewhere.html\n"
    assert (tmp_path / "elsewhere.html").read_text(encoding="utf-8") == text


def made_again(folder: Path) -> list[str]:
    """Return the words of the command that the report prints."""
    text = (folder / "report.html").read_text(encoding="utf-8").partition(">Make it again</h2>")[2]
    first, *words = shlex.split(html.unescape(text.partition("<code>")[2].partition("</code>")[0]))
    assert first == "airmix"
    return words


def options_of(words: Sequence[str]) -> set[tuple[str, str]]:
    """Return pairs of an option and its value; of a flag the value is empty, and a seed is a key of the scenario."""
    pairs, command = set[tuple[str, str]](), [*words, "--"]
    for word, after in itertools.pairwise(command):
        if word.startswith("--"):
            name, _, value = word.partition("=")
            value = value or ("" if after.startswith("--") else after)
            pairs.add(("--set", f"seed={value}") if name == "--seed" else (name, value))
    return pairs


IRIS = ("--preset", "private-iris")
TABLE = ("--rows", "500", "--input-dim", "5", "--label-dim", "3", "--max-air-seconds", "1.5")
AUDITED = ("--trials", "500", "--confidence", "0.9", "--adversary", "server", "--fault", "half-noise")


@pytest.mark.long
@pytest.mark.parametrize(
    ("words", "also"),
    [
        (("audit", *IRIS, *AUDITED, "--seed", "3", "--adjacency", "replace-one", "--jobs", "1"), ()),
        (("audit", *IRIS, "--trials", "500"), ()),
        (("attack", *IRIS, "--attacks", "informed-server", "--seed", "2", "--threads", "1"), ()),
        (("attack", *IRIS), ()),
        (("compare", *IRIS, "--methods", "airmix,local-dp", "--seeds", "2", "--threads", "1"), ()),
        (("run", *IRIS, "--private", "--public-test", "--threads", "1"), ()),
        (("run", *IRIS, "--seeds", "2", "--seed", "4"), ()),
        (("plan", *TABLE, "--no-picture"), (("--preset", "private-table"),)),
        (("plan", *IRIS, "--set", "privacy.epsilon=2", "--accuracy", "0.9", "--input-mean", "0.4", "--no-picture"), ()),
        (("tolerances", *IRIS, "--only", "absent", "--quick", "--jobs", "1"), (("--drop", "1"), ("--seeds", "1"))),
        (
            ("sweep", *IRIS, "--grid", "privacy.epsilon=1,10", "--command", "audit", "--trials", "400", "--jobs", "1"),
            (),
        ),
        (
            (
                *("sweep", *IRIS, "--grid", "privacy.epsilon=1,10", "--jobs", "1", "--command", "attack"),
                *("--attacks", "informed-server", "--metric", "claimed.server", "--metric", "grade"),
            ),
            (),
        ),
        (("reproduce", "table1", "--dataset", "iris", "--quick", "--as-printed", "--seeds", "2", "--jobs", "1"), ()),
    ],
)
def test_make_it_again_has_every_option_that_changes_the_result(
    airmix: Airmix, tmp_path: Path, words: tuple[str, ...], also: tuple[tuple[str, str], ...]
) -> None:
    places = {"--jobs", "--threads", "--no-picture"}
    wanted = {pair for pair in options_of(words) if pair[0] not in places} | set(also)
    done = airmix(*words, "--out", "here")
    assert done.returncode in (0, 1), done.stderr
    again = made_again(tmp_path / "here")
    assert again[0] == words[0]
    assert options_of(again) - {("--trials", "10000")} == wanted
    (tmp_path / "here" / "report.html").unlink()
    assert airmix("report", "here").returncode == 0
    assert made_again(tmp_path / "here") == again
    texts = [path for path in (tmp_path / "here").iterdir() if path.suffix in (".json", ".toml", ".md", ".html")]
    assert not any(str(tmp_path) in path.read_text(encoding="utf-8") for path in texts)


@pytest.mark.long
def test_a_plan_of_a_table_by_its_shape_is_made_again_by_its_report(airmix: Airmix, tmp_path: Path) -> None:
    first = airmix("plan", *TABLE, "--set", "privacy.epsilon=3", "--out", "here", "--no-picture")
    assert "breast-cancer" not in "".join(path.read_text() for path in (tmp_path / "here").iterdir())
    assert Scenario.load(tmp_path / "here" / "scenario.toml").workers.dataset == "TABLE.csv"
    again = airmix(*made_again(tmp_path / "here"), "--out", "there", "--no-picture")
    assert again.stdout.replace("there", "here") == first.stdout
    (tmp_path / "mine.toml").write_text('name = "mine"\nextends = "private-table"\n[workers]\ndataset = "absent.csv"\n')
    assert airmix("plan", "mine.toml", *TABLE, "--out", "file", "--no-picture").returncode == 0
    assert made_again(tmp_path / "file") == ["plan", "scenario.toml", *TABLE]


@pytest.mark.long
@pytest.mark.parametrize(
    ("words", "file", "lacks"),
    [
        (("attack", *IRIS, "--attacks", "informed-server"), "metrics.json", ("attacks",)),
        (("plan", *TABLE, "--no-picture"), "metrics.json", ("given",)),
        (("tolerances", *IRIS, "--only", "absent", "--quick", "--jobs", "1"), "tolerances.json", ("quick",)),
        (("sweep", *IRIS, "--grid", "privacy.epsilon=1,10", "--jobs", "1"), "sweep.json", ("given",)),
        (("reproduce", "fig2", "--jobs", "1"), "report.json", ("dataset", "as_printed")),
    ],
)
def test_a_folder_without_what_is_recorded_now_is_still_read(
    airmix: Airmix, tmp_path: Path, words: tuple[str, ...], file: str, lacks: tuple[str, ...]
) -> None:
    assert airmix(*words, "--out", "here").returncode == 0
    plain = json.loads((tmp_path / "here" / file).read_text())
    for key in lacks:
        del plain[key]
    (tmp_path / "here" / file).write_text(json.dumps(plain))
    done = airmix("report", "here")
    assert done.returncode == 0, done.stderr
    assert made_again(tmp_path / "here")[0] == words[0]


def test_mistakes(refused: Refused, copied: Callable[[str], Path], tmp_path: Path) -> None:
    assert "nowhere: there is no such folder" in refused("report", "nowhere")
    (tmp_path / "empty").mkdir()
    assert "empty: holds none of metrics.json, compare.json" in refused("report", "empty")
    (tmp_path / "file").write_text("x")
    assert "file: is no folder" in refused("report", "file")
    copied("a")
    assert "file: is there already and is no report of airmix" in refused("report", "a", "--out", "file")
    assert "empty: is a folder" in refused("report", "a", "--out", "empty")
    assert "a a: must be 2 to 12 folders" in refused("report", "a", "a")
    assert "nowhere: there is no such folder" in refused("report", "a", "nowhere")
    shutil.copytree(tmp_path / "a", tmp_path / "a.partial")
    assert "an interrupted run" in refused("report", "a.partial")


@pytest.mark.parametrize(
    "content", ["{", "[]", '{"privacy": 3}', '{"naming_bound": 1}', '{"audits": [{}]}', '{"feasible": true}', '"x"', ""]
)
def test_broken_results(content: str, refused: Refused, tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "metrics.json").write_text(content)
    (tmp_path / "here" / "scenario.toml").write_text("")
    assert "metrics.json: does not hold what airmix wrote" in refused("report", "here")


@pytest.mark.parametrize("name", ["compare.json", "sweep.json", "tolerances.json", "report.json"])
def test_broken_studies(name: str, refused: Refused, tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / name).write_text('{"scenario": {"workers": 3}}')
    assert f"here/{name}: does not hold what airmix wrote" in refused("report", "here")


def test_a_run_without_its_scenario(refused: Refused, copied: Callable[[str], Path]) -> None:
    (copied("a") / "scenario.toml").unlink()
    assert "scenario is missing" in refused("report", "a")


@pytest.mark.long
def test_a_report_that_fails_loses_no_run(airmix: Airmix, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page that is made beforehand, of a stand-in, is sound; that of the run is not."""
    first = iter([Page.to_html])

    def fail(page: Page, *given: object) -> str:
        for to_html in first:
            return to_html(page, *given)  # type: ignore[arg-type]
        raise ValueError("no ink")

    monkeypatch.setattr(Page, "to_html", fail)
    done = airmix(*SMALL, "--out", "here", "--json")
    assert done.returncode == 0
    assert done.stderr == "airmix: no report.html in here: no ink; airmix report here tries again\n"
    assert "report" not in json.loads(done.stdout)
    assert not (tmp_path / "here" / "report.html").exists()
    monkeypatch.undo()
    assert airmix("report", "here").returncode == 0


def test_names_of_users_are_text(airmix: Airmix, tmp_path: Path) -> None:
    """A file and a column that are HTML: neither becomes part of the page."""
    column, file = "<script>alert(1)</script>", "<img src=x onerror=alert(2)>.csv"
    rows = [f"{row % 7},{row % 5},{row % 3}" for row in range(60)]
    (tmp_path / file).write_text("\n".join([f"a,b,{column}", *rows]) + "\n")
    (tmp_path / "mine.toml").write_text(
        'name = "mine"\n[workers]\ndataset = "' + file + '"\ntask = "regression"\nencoder = "clip"\n'
        f'label_columns = ["{column}", "b"]\ntarget_lower = [0.0, 0.0]\ntarget_upper = [3.0, 5.0]\n'
        'input_lower = [0.0]\ninput_upper = [8.0]\nsends = "moments"\n'
        '[mixing]\npolicy = "equalmix"\n[radio]\nslots = 1\n'
        '[privacy]\nsensitivity = "encoder"\naccountant = "gdp"\nadversary = "server"\n[learner]\nmodel = "ridge"\n'
    )
    done = airmix("run", "mine.toml", "--out", "here")
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "here" / "report.html").read_text(encoding="utf-8")
    assert "&lt;script&gt;alert(1)" in text
    assert "&lt;img src=x onerror" in text
    assert not re.search(r"<script|<img src=x|<img(?![^>]*src=\"data:)", text)


@pytest.mark.skipif(sys.platform == "win32", reason="a folder that may not be written is another thing there")
def test_a_full_disk(
    airmix: Airmix, files_up_to: Callable[[int], object], copied: Callable[[str], Path], tmp_path: Path
) -> None:
    before = (copied("here") / "report.html").read_bytes()
    with files_up_to(1000):  # type: ignore[attr-defined]
        done = airmix("report", "here")
    assert done.returncode == 2
    assert "cannot be written" in done.stderr
    assert (tmp_path / "here" / "report.html").read_bytes() == before
