"""Attacks on a scenario: which grade, and a folder that an interrupted command resumes."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from levels_for_tests import level_of

from airmixml.attacks import AttackResult, attack, choose_parts
from airmixml.attacks.attack_page import attack_page
from airmixml.attacks.listener_attacks import ListenerFindings
from airmixml.attacks.measured import (
    GRADES,
    Findings,
    Identified,
    LabelInference,
    Linkage,
    counted,
    grade_of,
    guessing_bound,
)
from airmixml.attacks.result import Found
from airmixml.attacks.run_attacks import run_attacks
from airmixml.attacks.server_attacks import ServerFindings
from airmixml.files import ResultStore, from_plain
from airmixml.messages import NOTHING_PROMISED, RunFolderError, ScenarioError, epsilon_text
from airmixml.progress import Progress
from airmixml.registries import ATTACKS
from airmixml.scenario import RunContext, Scenario
from airmixml.streams import Streams
from airmixml.workers import deploy, load_dataset

PARTS = ("least-squares", "non-negative", "prior", "release", "eavesdropper")
INFORMED = ("informed-server", "informed-release", "informed-eavesdropper")
INVERSION = ("inversion", "inversion-everyone")
IRIS = Scenario.preset("paper-iris").with_overrides("workers.count=40", "radio.slots=80", "radio.scheduled=4")
DIGITS = Scenario.preset("digits").with_overrides("workers.count=80", "radio.slots=150")


class Stopped(Exception):
    pass


def without_seconds(value: Any) -> Any:
    """The same without how long things took and where they were put."""
    if isinstance(value, dict):
        return {
            key: without_seconds(inner)
            for key, inner in value.items()
            if "seconds" not in key and key not in ("run_dir", "scenario")
        }
    return [without_seconds(inner) for inner in value] if isinstance(value, list) else value


def test_attacks_by_name() -> None:
    assert choose_parts(None) == (*PARTS, *INFORMED, "inversion")
    assert ATTACKS.own == (*PARTS, "everyone", *INFORMED, "informed-everyone", *INVERSION)
    assert choose_parts("eavesdropper , prior,prior") == ("prior", "eavesdropper")
    with pytest.raises(ScenarioError, match=r"'lest-squares': must be some of .*; did you mean least-squares\?"):
        choose_parts("prior,lest-squares")
    with pytest.raises(ScenarioError, match="'telepathy': must be some of") as unlike:
        choose_parts("telepathy")
    assert "did you mean" not in str(unlike.value)
    with pytest.raises(ScenarioError, match="--attacks '': must be some of"):
        choose_parts("")


def server(
    beyond: float,
    labels: float,
    explained: float = 0.0,
    *,
    p_value: float = 0.0,
    copied: float = 0.0,
    copied_p_value: float = 0.0,
    explained_p_value: float = 0.0,
) -> ServerFindings:
    return ServerFindings(
        psnr_db=12.0,
        recognised=7,
        recognised_share=0.4 + 0.6 * beyond,
        guessing=0.4,
        p_value=p_value,
        explained=explained,
        copied=round(10 * copied),
        copied_share=copied,
        copied_p_value=copied_p_value if copied else 1.0,
        labels=LabelInference(inferred=10, accuracy=0.4 + 0.6 * labels, baseline=0.4, p_value=p_value),
        image_shape=None,
        reader_accuracy=0.95,
        explained_p_value=explained_p_value,
    )


@pytest.mark.parametrize(
    ("findings", "level"),
    [
        (server(-0.3, -0.2, -5.0), ""),
        (server(0.0499, 0.0499, 0.0499), ""),
        (server(0.05, 0.0), "leaks"),
        (server(0.0, 0.05), "leaks"),
        (server(0.0, 0.0, 0.05), "leaks"),
        (server(0.4999, 0.4999, 0.4999), "leaks"),
        (server(0.501, 0.0), "exposed"),
        (server(0.0, 0.501), "exposed"),
        (server(0.0, 0.0, 0.5), "exposed"),
        (server(0.0, 0.0, copied=0.001), "leaks"),  # one in a thousand, but copied
        (server(0.0, 0.0, copied=0.9, p_value=1.0, copied_p_value=0.011, explained_p_value=1.0), ""),
        (server(0.0, 0.0, copied=0.5), "exposed"),
        # Four figures are tested at once: 1 % of false alarms is a quarter of it for the first of them.
        (server(0.6, 0.0, p_value=0.0026, copied_p_value=1.0, explained_p_value=1.0), ""),
        (server(0.6, 0.0, p_value=0.0024, copied_p_value=1.0, explained_p_value=1.0), "exposed"),
    ],
)
def test_how_much_the_server_found(findings: ServerFindings, level: str) -> None:
    assert level_of(findings) == level


def listener(
    *,
    clear: int = 0,
    hits: float = 0.01,
    auc: float = 0.5,
    p_clear: float = 0.0,
    beside: tuple[int, int] | None = None,
    alike: bool = True,
) -> ListenerFindings:
    return ListenerFindings(
        linkage=Linkage(
            auc=auc,
            auc_chance_deviation=0.01,
            hit_rate=hits,
            private_candidates=100,
            public_candidates=100,
            method="likelihood",
        ),
        clearest_slots=Identified(identified=clear, looked_at=10, p_value=p_clear if clear else 1.0),
        beside=None
        if beside is None
        else Identified(identified=beside[0], looked_at=beside[1], p_value=0.0 if beside[0] else 1.0),
        decoys_alike=alike,
    )


@pytest.mark.parametrize(
    ("findings", "level"),
    [
        (listener(), ""),
        (listener(clear=1), "leaks"),
        (listener(clear=4), "leaks"),
        (listener(clear=5), "exposed"),
        (listener(clear=10, p_clear=0.0035), ""),  # three figures are tested at once
        (listener(clear=10, p_clear=0.0032), "exposed"),
        (listener(beside=(3, 6)), "exposed"),
        (listener(beside=(2, 6)), "leaks"),
        (listener(beside=(0, 6)), ""),
        # An AUC beyond chance is a leak by itself: the better of two methods, 2.4 and 3.5 deviations from a half.
        (listener(auc=0.524), ""),
        (listener(auc=0.535), "leaks"),
        (listener(auc=0.75), "exposed"),
        (listener(auc=0.3), ""),  # the other way round is no leak
        (listener(auc=0.6, alike=False), ""),  # a test set of its own may differ by so much
        (listener(auc=0.66, alike=False), "leaks"),
        (listener(hits=0.06), ""),  # beyond all but 1 of 100 decoys: 6 of 100 by chance once in ten
        (listener(hits=0.2), "leaks"),
        (listener(hits=0.49), "leaks"),
        (listener(hits=0.52), "exposed"),
        (listener(hits=0.15, alike=False), ""),
        (listener(hits=0.2, alike=False), "leaks"),
    ],
)
def test_how_much_was_found_without_a_schedule(findings: ListenerFindings, level: str) -> None:
    assert level_of(findings) == level


def test_only_a_small_claimed_epsilon_hides_people() -> None:
    assert [grade_of("", bound) for bound in (0.0, 0.499, 0.5, 1.0)] == [
        "hidden",
        "hidden",
        NOTHING_PROMISED,
        NOTHING_PROMISED,
    ]
    for level in ("leaks", "exposed"):  # what was found counts, whatever is claimed
        assert {grade_of(level, bound) for bound in (0.1, 1.0)} == {level}
    assert GRADES == ("hidden", "nothing promised", "leaks", "exposed")


def test_what_a_claim_leaves_of_naming() -> None:
    # Randomised response among M answers is replace-one private and names with exactly this probability.
    for epsilon, count in ((0.5, 2), (3.0, 10), (8.0, 1000)):
        truthful = math.exp(epsilon) / (math.exp(epsilon) + count - 1)
        assert guessing_bound(epsilon, 0.0, "replace-one", 1 / count) == pytest.approx(truthful)
    # Revealed with probability delta, and nothing else: right in delta, or by guessing in the rest.
    assert guessing_bound(0.0, 0.2, "replace-one", 1 / 10) == pytest.approx(0.2 + 0.8 * 0.1)
    # By hand: e^10 / 60,000 + 1e-5; beyond 100 samples, of e^5, wrong with e^-5 (0.99 - 0.01) at least.
    assert guessing_bound(10.0, 1e-5, "remove-one", 1 / 60_000) == pytest.approx(0.367118, rel=1e-5)
    assert guessing_bound(5.0, 0.01, "remove-one", 1 / 100) == pytest.approx(1 - 0.98 * math.exp(-5))
    assert [guessing_bound(epsilon, 1e-5, "remove-one", 1 / 60_000) for epsilon in (None, 1.1e4)] == [1.0, 1.0]
    assert guessing_bound(1.1e4, 0.01, "replace-one", 1 / 60_000) == pytest.approx(1.0)


def result(epsilon: float | None = 1.0, **findings: Findings) -> AttackResult:
    """A result of 10 workers with these findings, by adversary."""
    found = {
        name: Found(attack={"server": "prior"}.get(name, name), adversary=name, findings=each)
        for name, each in findings.items()
    }
    return AttackResult(
        scenario=IRIS.with_overrides("privacy.eavesdropper_distance_metres=2.5"),
        claimed=dict.fromkeys(("server", "release", "eavesdropper"), epsilon),
        found={each.attack: each for each in found.values()},
        left_out={},
        held=100,
    )


def summary_of(case: AttackResult) -> list[tuple[str, ...]]:
    return [(each["attacker"], *each["texts"]) for each in case.measured if each["main"]]


PROMISED = "PROMISED against the release: epsilon {}, which no attack broke. "
NOISE = "assumes the noise of the server's receiver"


def of_many(findings: ServerFindings) -> ServerFindings:
    labels = replace(findings.labels, inferred=1000, p_value=1.0)
    return replace(findings, labels=labels, p_value=1.0, explained_p_value=1.0)


def test_the_worst_grade_counts_and_the_words_say_why() -> None:
    both = result(server=server(0.501, 0.0), release=listener())
    assert both.grade == "exposed"
    found = "The server reads a sample's class: 70 % (guessing 40 %)."
    assert both.verdict == f"{PROMISED.format(1)}EXPOSED to the server. {found}"
    told = f"promise: delta 0.01; replace-one; {NOISE}; the target is epsilon 5 by paper-loose"
    assert both.details[0] == told
    assert both.details[1].startswith(
        "tested: 7 figures at once; certain: beyond chance, with at most 1 % false alarms"
    )
    assert summary_of(both)[0] == ("server", "reads a sample's class", "70 %", "40 %", "65 %", "yes")
    nothing = result(server=of_many(server(0.0, 0.0)), release=listener())
    assert nothing.verdict == f"{PROMISED.format(1)}Nothing found."
    assert {row[-1] for row in summary_of(nothing)} == {"no"}
    seen = result(eavesdropper=listener(beside=(3, 6)), release=listener(auc=0.6))
    found = "The eavesdropper names its neighbour: 3 of 6 (guessing 0.06 of 6)."
    assert seen.verdict == f"{PROMISED.format(1)}EXPOSED to the eavesdropper; LEAKS to the release. {found}"
    assert summary_of(seen) == [
        ("eavesdropper", "names its neighbour", "3 of 6", "0.06 of 6", "–", "yes"),
        ("release", "tells who took part (AUC)", "0.60", "0.50", "0.73", "yes"),
    ]


def test_the_target_is_told_beside_what_is_certified() -> None:
    case = replace(result(release=listener()), claimed_by={"release": "pld"})
    assert case.verdict.startswith("PROMISED against the release: epsilon 1 by pld, ")
    kept = replace(case, scenario=case.scenario.with_overrides("mixing.power=dp"))
    assert kept.details[0].endswith("; the target is epsilon 5 by paper-loose")
    loud = replace(case, scenario=case.scenario.with_overrides("mixing.power=max"))
    assert "target" not in loud.details[0]


def test_what_guessing_gives_has_the_unit_of_the_success() -> None:
    few = counted("names", 0.2, 10, 0.026, shown="2 of 10")
    assert (few.text, few.like(few.guessing)) == ("2 of 10", "0.26 of 10")
    texts = [few.like(rate) for rate in (0.0, 1e-6, 0.5, 1.0)]
    assert texts == ["0 of 10", "<0.001 of 10", "5 of 10", "10 of 10"]
    assert counted("reads", 0.2, 10, 0.026).like(0.026) == "2.6 %"


def test_no_figure_beyond_chance_stands_beside_nothing_found() -> None:
    """A share below 5 % is no leak, but is said."""
    small = result(
        release=replace(listener(auc=0.52), linkage=replace(listener(auc=0.52).linkage, auc_chance_deviation=0.002))
    )
    assert small.grade == "hidden"
    found = "The release tells who took part (AUC): {} (guessing 0.50)."
    assert small.verdict == f"{PROMISED.format(1)}Only hints found, by the release. {found.format('0.52')}"
    assert summary_of(small) == [("release", "tells who took part (AUC)", "0.52", "0.50", "0.73", "yes")]
    clear = result(None, release=listener(auc=0.63))
    told = f"NOTHING PROMISED against the release. LEAKS to the release. {found.format('0.63')}"
    assert (clear.grade, clear.verdict) == ("leaks", told)


def test_an_attack_that_exceeds_its_epsilon_breaks_the_promise() -> None:
    """At epsilon 0.1 no more than 0.53 of the pairs may be told apart; ten deviations beyond that are no chance."""
    assert result(0.1, release=listener(auc=0.54)).broken is False
    broken = result(0.1, release=listener(auc=0.63))
    assert broken.broken
    assert broken.verdict.startswith("PROMISE BROKEN against the release: epsilon 0.1. LEAKS to the release")
    assert summary_of(broken) == [("release", "tells who took part (AUC)", "0.63", "0.50", "0.53", "yes")]
    # An epsilon against another adversary is not the one that was promised.
    assert not replace(broken, scenario=broken.scenario.with_overrides("privacy.adversary=server")).broken


def test_nothing_found_is_no_promise_at_a_large_epsilon() -> None:
    quiet = {"server": of_many(server(0.0, 0.0)), "release": listener(), "eavesdropper": listener()}
    assert result(1.0, **quiet).grade == "hidden"  # e^1 / (e^1 + 99) by replace-one, and a little delta
    assert result(10.0, **quiet).grade == NOTHING_PROMISED
    large = result(1.1e4, **quiet)
    assert large.grade == NOTHING_PROMISED
    assert large.verdict == (
        "PROMISE TOO WEAK against the release: epsilon 11,000. "
        "Nothing found; promise too weak against the server and the eavesdropper."
    )
    unclaimed = result(None, release=listener())
    assert unclaimed.grade == NOTHING_PROMISED
    assert unclaimed.verdict == "NOTHING PROMISED against the release. Nothing found."
    assert len(unclaimed.details) == 1
    figures = large.to_dict()
    assert [figures[name]["grade"] for name in ("server", "release", "eavesdropper")] == [NOTHING_PROMISED] * 3
    assert len(figures["measured"]) == 10
    assert not any(each["beyond_chance"] for each in figures["measured"])


def test_a_row_on_many_workers_is_covered_by_its_own_epsilon_alone() -> None:
    """A small epsilon of a worker hides no row that others hold too."""
    quiet = {"server": of_many(server(0.0, 0.0)), "release": listener()}
    few = result(1.0, **quiet)
    assert few.grade == "hidden"
    many = replace(few, claimed_per_row={"release": 1.0, "server": 200.0, "eavesdropper": None}, copies=20)
    assert [group.grade for group in many.groups] == [NOTHING_PROMISED, "hidden"]
    assert many.grade == NOTHING_PROMISED
    assert [many.naming_bound(name) for name in ("server", "eavesdropper")] == [1.0, 1.0]
    assert many.naming_bound("release") == few.naming_bound("release") < 0.05
    plain = many.to_dict()
    assert plain["claimed_per_row"] == {"server": 200.0, "release": 1.0, "eavesdropper": None}
    worst = replace(many, claimed_per_row={**many.claimed_per_row, "release": 200.0})
    assert worst.verdict.startswith("PROMISE TOO WEAK against the release: epsilon 1 per worker, 200 per row. ")
    assert worst.details[0].endswith("; up to 20 workers hold one row")


def test_epsilons_in_few_digits() -> None:
    texts = [epsilon_text(epsilon) for epsilon in (None, 0.123456, 5.0, 9999.0, 1e4, 6.93e7)]
    assert texts == ["no guarantee", "0.1235", "5", "9,999", "10,000", "69.3 million"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[AttackResult, Path]:
    """Digits at full power, all attacks but the informed ones; result and folder."""
    folder = tmp_path_factory.mktemp("whole") / "here"
    return attack(DIGITS, PARTS, out=folder), folder


def test_figures_table_and_picture(whole: tuple[AttackResult, Path]) -> None:
    found, folder = whole
    metrics = found.to_dict()
    assert {entry.name for entry in folder.iterdir()} == {
        "scenario.toml", "metrics.json", "attack.md", "attack.png", "attack.svg", "parts",
    }  # fmt: skip
    assert json.loads((folder / "metrics.json").read_text()) == json.loads(json.dumps(metrics))
    assert metrics["grade"] == "exposed"
    assert metrics["claimed"]["server"] > 1e6
    assert metrics["server"]["methods"]["least-squares"]["psnr_db"] > 40.0
    text = (folder / "attack.md").read_text()
    assert text == attack_page(metrics, DIGITS).to_markdown()
    assert metrics["verdict"] in text
    head = (folder / "attack.png").read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", head[16:])
    assert 300 < height < width < 6000
    assert Scenario.load(folder / "scenario.toml") == DIGITS
    # Findings come back from JSON as they were.
    for each in found.found.values():
        assert from_plain(type(each.findings), json.loads(json.dumps(each.findings.to_dict()))) == each.findings


def test_values_of_each_worker_and_examples(whole: tuple[AttackResult, Path]) -> None:
    metrics, folder = whole[0].to_dict(), whole[1]
    dataset = load_dataset(DIGITS.workers, Streams(0))
    held_index = deploy(DIGITS.workers, dataset.train_samples, Streams(0)).sample_index
    for method, figures in metrics["server"]["methods"].items():
        with np.load(folder / "parts" / f"{method}.npz", allow_pickle=False) as content:
            psnr_db, recognised = content["psnr_db"], content["recognised"]
            originals, examples = content["originals"], content["examples"]
        assert psnr_db.shape == recognised.shape == (80,)
        assert recognised.sum() == figures["recognised"]
        assert np.median(psnr_db) == pytest.approx(figures["psnr_db"], rel=1e-5)
        rows = [int(np.flatnonzero((dataset.train_inputs == original).all(axis=1))[0]) for original in originals]
        assert set(rows) <= set(held_index.tolist())
        assert dataset.train_labels[rows].tolist() == list(range(10))  # one of each class
        np.testing.assert_allclose(examples, originals, atol=0.1)


@pytest.mark.parametrize("parts", [("eavesdropper",), ("prior", "release"), ("informed-server",)])
def test_some_attacks_alone(tmp_path: Path, parts: tuple[str, ...]) -> None:
    found = attack(IRIS, parts, out=tmp_path / "here")
    case = found.to_dict()
    assert {each["attack"] for each in case["measured"]} == set(parts)
    assert (tmp_path / "here" / "attack.png").stat().st_size > 5000


@pytest.mark.long
def test_the_same_seed_gives_the_same_numbers_and_another_does_not(tmp_path: Path) -> None:
    one, same, other = (
        attack(IRIS.with_seed(seed), out=tmp_path / name).to_dict() for seed, name in ((1, "a"), (1, "b"), (2, "c"))
    )
    assert without_seconds(one) == without_seconds(same)
    assert without_seconds(one) != without_seconds(other)


def stop_before(attack_number: int) -> Progress:
    """Stands for whatever ends the command before that attack, counted from 0 over all settings."""

    def progress(stage: str, done: int, _total: int) -> None:
        if (stage, done) == ("attacks", attack_number):
            raise Stopped

    return progress


def test_an_interrupted_attack_resumes_with_what_is_missing(tmp_path: Path) -> None:
    names = ("prior", "release", "eavesdropper", "informed-server")
    with pytest.raises(Stopped):
        attack(IRIS, names, out=tmp_path / "here", progress=stop_before(3), pictures=False)
    assert [entry.name for entry in tmp_path.iterdir()] == ["here.partial"]

    # One part is damaged as a disk would do it, another is whole, but holds something else.
    parts = tmp_path / "here.partial" / "parts"
    damaged = bytearray((parts / "release.npz").read_bytes())
    damaged[200:300] = bytes(100)
    (parts / "release.npz").write_bytes(damaged)
    ResultStore(parts).save("eavesdropper.npz", {"linkage": 7, "seconds": 1.0}, {})
    before = {path.name: path.stat().st_ino for path in parts.iterdir()}

    found = attack(IRIS, names, out=tmp_path / "here", pictures=False)
    after = {path.name: path.stat().st_ino for path in (tmp_path / "here" / "parts").iterdir()}
    made = {name for name, inode in after.items() if before.get(name) != inode}
    assert made == {"release.npz", "eavesdropper.npz", "informed-server.npz"}
    whole = run_attacks(IRIS, names, folder=tmp_path / "whole", context=RunContext())
    assert without_seconds(found.to_dict()) == without_seconds({**whole.to_dict(), "attacks": list(names)})
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["here", "whole"]


def test_another_attack_does_not_resume_it(tmp_path: Path) -> None:
    with pytest.raises(Stopped):
        attack(IRIS, ("release", "eavesdropper"), out=tmp_path / "here", progress=stop_before(1))
    for scenario, parts in ((IRIS.with_seed(1), ("release", "eavesdropper")), (IRIS, ("release",))):
        with pytest.raises(RunFolderError, match="holds an interrupted run with other settings"):
            attack(scenario, parts, out=tmp_path / "here")
    attack(IRIS.with_seed(1), ("release",), out=tmp_path / "here", force=True, pictures=False)
    assert json.loads((tmp_path / "here" / "metrics.json").read_text())["seed"] == 1


OTHER_PACKAGE = """
import numpy as np
from airmixml.attacks import Outcome, PlainFindings

class MeanAttack:
    about = "take the class of the public mean nearest to the strongest slot"
    adversary = "release"
    findings = PlainFindings

    def refusal(self, scenario):
        return "moments are sent" if scenario.workers.sends == "moments" else ""

    def run(self, target):
        share = 0.3 if target.view.released.shape[0] == target.scenario.radio.slots else 0.0
        return Outcome(findings=PlainFindings(
            share=share, words="guesses 3 of 10 classes", figures={"right": 3},
        ))

attack = MeanAttack()
"""


@pytest.fixture
def other_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An installed package that brings the attack ``mean``."""
    site = tmp_path / "site"
    (site / "other-1.0.dist-info").mkdir(parents=True)
    (site / "other-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1.0\n")
    (site / "other-1.0.dist-info" / "entry_points.txt").write_text("[airmixml.attacks]\nmean = other_attack:attack\n")
    (site / "other_attack.py").write_text(OTHER_PACKAGE)
    monkeypatch.syspath_prepend(site)
    vars(ATTACKS).pop("plugins", None)  # names are looked up once in a process
    yield
    vars(ATTACKS).pop("plugins", None)


@pytest.mark.usefixtures("other_package")
def test_an_attack_of_another_package_stands_beside_ours(tmp_path: Path) -> None:
    assert choose_parts(None) == (*PARTS, *INFORMED, "inversion", "mean")
    found = attack(IRIS, ("release", "mean"), out=tmp_path / "here", pictures=False)
    case = found
    assert case.grade == "leaks"
    assert ("release, mean", "guesses 3 of 10 classes", "30 %", "0 %", "–", "yes") in summary_of(case)
    figures = json.loads((tmp_path / "here" / "metrics.json").read_text())
    assert figures["other_attacks"]["mean"]["adversary"] == "release"
    assert figures["other_attacks"]["mean"]["grade"] == "leaks"
    assert figures["release"]["grade"] != "leaks"
    text = (tmp_path / "here" / "attack.md").read_text()
    assert "guesses 3 of 10 classes" in text
    # Alone it has nothing to draw, and what it refuses is left out.
    attack(IRIS, ("mean",), out=tmp_path / "alone")
    moments = Scenario.preset("private-iris")
    left = attack(moments, ("release", "mean"), out=tmp_path / "left", pictures=False)
    assert left.left_out == {"mean": "moments are sent"}
    with pytest.raises(ScenarioError, match=r"--attacks: none fits private-iris: mean \(moments are sent\)"):
        attack(moments, ("mean",), out=tmp_path / "none")


def test_every_attack_of_ours_says_what_it_does() -> None:
    for name in ATTACKS.own:
        each = ATTACKS.load(name)
        assert all(hasattr(each, needed) for needed in ATTACKS.needs)
        assert each.about
        named = {"server": getattr(each, "method", ""), "informed": f"informed-{each.adversary}"}
        assert name in (named.get(each.findings.kind, each.adversary), *INVERSION)


@pytest.mark.parametrize("writes_before", [0, 3])
def test_a_disk_that_fills_up(
    tmp_path: Path, disk_full_after: Callable[[int], AbstractContextManager[None]], writes_before: int
) -> None:
    with disk_full_after(writes_before), pytest.raises(RunFolderError, match=r"cannot be written \(No space left"):
        attack(IRIS, ("release",), out=tmp_path / "here", pictures=False)
    assert not (tmp_path / "here").exists()
    found = attack(IRIS, ("release",), out=tmp_path / "here", pictures=False)  # there is room again
    assert list(found.found) == ["release"]
    assert not list((tmp_path / "here").rglob("*.tmp"))
