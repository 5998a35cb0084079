"""docs/attacks.md and benchmarks/results/attacks/*.csv show what benchmarks/results/attacks.json holds."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from airmixml import Scenario

pytestmark = pytest.mark.record
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def tables(benchmark_script: Callable[[str], ModuleType]) -> ModuleType:
    return benchmark_script("attack_tables")


@pytest.fixture(scope="module")
def results() -> dict[str, Any]:
    content: dict[str, Any] = json.loads((ROOT / "benchmarks/results/attacks.json").read_text(encoding="utf-8"))
    return content


def test_the_tables_are_those_of_the_results(
    tables: ModuleType, results: dict[str, Any], benchmark_script: Callable[[str], ModuleType]
) -> None:
    shown, files = tables.made(results)
    assert not benchmark_script("doc_tables").stale(tables.DOCUMENT, shown, tables.FOLDER, files)
    text = tables.DOCUMENT.read_text(encoding="utf-8")
    assert all(f"`{name}.csv`" in text for name in files)


def test_the_distances_on_the_page_are_those_of_the_results(tables: ModuleType, results: dict[str, Any]) -> None:
    text = tables.DOCUMENT.read_text(encoding="utf-8")
    for name, label, found in (
        ("distance", "paper, epsilon 10", "neighbour"),
        ("distance-private-mnist", "`private-mnist`", "strongest 10"),
    ):
        head, lines = tables.FILES[name](results)
        for column in ("epsilon", found):
            cells = " | ".join(line[head.index(column)] for line in lines)
            assert f"| {label}: {column} | {cells} |" in text


def test_hidden_needs_a_small_epsilon(results: dict[str, Any]) -> None:
    cases = [case for result in results.values() for case in result.get("cases", [])]
    graded = {
        (case[name]["grade"], claimed[name] is not None and claimed[name] <= 10.0)
        for case in cases
        for claimed in [case["claimed_per_row"]]
        for name in ("server", "release", "eavesdropper", "everyone")
        if case.get(name) is not None
    }
    assert {("hidden", True), ("nothing promised", False)} <= graded
    assert not graded & {("hidden", False), ("nothing promised", True)}


def test_no_lower_bound_exceeds_any_claim_and_every_fault_is_caught(results: dict[str, Any]) -> None:
    audited = [audit for name, result in results.items() if name.startswith("audit ") for audit in result["audits"]]
    assert len(audited) == 12
    for audit in audited:
        claims = [claim["epsilon"] for claim in audit["claims"] if claim["epsilon"] is not None]
        assert claims
        assert audit["epsilon_lower"] <= min(claims)
        assert not audit["caught"]
    faults = [audit for name, result in results.items() if name.startswith("fault ") for audit in result["audits"]]
    assert len(faults) == 5
    assert all(audit["caught"] and audit["epsilon_lower"] > audit["epsilon_claimed"] for audit in faults)


def test_what_the_text_says_of_the_gallery(results: dict[str, Any]) -> None:
    cases = {case["label"]: case for case in results["gallery"]["cases"]}
    assert cases["maximum power"]["server"]["methods"]["least-squares"]["copied_share"] == 1.0
    paper = cases["epsilon 10"]
    assert paper["server"]["methods"]["prior"]["recognised_share"] > 0.5
    assert (paper["server"]["grade"], paper["release"]["grade"], paper["eavesdropper"]["grade"]) == (
        "exposed", "nothing promised", "exposed",
    )  # fmt: skip
    assert paper["claimed"]["server"] == pytest.approx(298, abs=0.5)
    ours = cases["private-mnist"]
    assert [ours[name]["grade"] for name in ("server", "release")] == ["hidden", "hidden"]
    assert ours["eavesdropper"]["grade"] in ("leaks", "exposed")
    release = cases["private-mnist-release"]
    assert (release["release"]["grade"], release["server"]["grade"]) == ("hidden", "exposed")
    loud = {case["label"]: case for case in results["alpha"]["cases"]}
    assert loud["alpha 1e-3"]["release"]["grade"] == "exposed"
    assert loud["alpha 1e-3"]["server"]["methods"]["prior"]["copied_share"] == pytest.approx(0.81, abs=0.01)


def test_what_the_text_says_of_workers_who_bring_noise(results: dict[str, Any]) -> None:
    cases = {case["label"]: case for case in results["gallery"]["cases"]}
    hidden = cases["trustless-mnist"]
    assert hidden["eavesdropper"]["grade"] == "hidden"
    named = [hidden[name]["clearest_slots"] for name in ("eavesdropper", "everyone")]
    assert all(each["p_value"] > 1e-3 for each in named)
    for label, case in cases.items():
        if label != "trustless-mnist":
            assert case["everyone"]["grade"] == "exposed"
            assert case["everyone"]["clearest_slots"]["identified"] == 10
    by_epsilon = {case["label"]: case for case in results["trustless"]["cases"]}
    assert by_epsilon["epsilon 1"]["everyone"]["grade"] == "hidden"
    assert by_epsilon["epsilon 1"]["eavesdropper"]["grade"] == "hidden"


def test_what_the_text_says_of_informed_adversaries(results: dict[str, Any]) -> None:
    cases = {name.removeprefix("informed "): each["cases"][0] for name, each in results.items() if "informed " in name}
    presets = {path.stem for path in (ROOT / "src/airmixml/presets").glob("*.toml")}
    long = {"trustless-mnist-rounds", "trustless-mnist-digital"}  # they take ten minutes each
    assert set(cases) == presets - long - {"trustless-wine"}  # which is for trials of deployments
    for name in ("private-iris", "trustless-iris"):
        case = cases[name]
        assert case["informed"]["server"]["grade"] == "exposed"
        assert case["informed"]["server"]["row"]["named"] > 0.5
        assert case["claimed_per_row"]["server"] > 100 * case["claimed"]["server"]
    for name, case in cases.items():
        left_out = {"informed-eavesdropper"} if name.endswith("-digital") else set()  # learns what everyone does
        if not Scenario.preset(name).all_send:  # the schedule is hidden
            left_out.add("informed-release")
        assert set(case["left_out"]) == left_out
        adversaries = ("server", "release", "eavesdropper", "everyone")
        assert list(case["informed"]) == [each for each in adversaries if f"informed-{each}" not in left_out]
        for adversary, found in case["informed"].items():
            row, claimed = found["row"], case["claimed_per_row"][adversary]
            assert row["candidates"] == 51
            # Phi(mu - 2.33) at most of the loudest, and no grade better than the epsilon of a row allows.
            assert found["grade"] != "hidden" or claimed <= 3.3, (name, adversary)
            if found["worker"]["mu_largest"] is not None and case["copies"] == 1:
                assert row["mu_median"] == pytest.approx(found["worker"]["mu_median"])
