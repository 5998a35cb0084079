"""The benchmark suite: its baselines do what they claim, its rows are whole, and the docs show what was measured."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
RESULTS = sorted((ROOT / "benchmarks" / "results").glob("bench_*.json"))


@pytest.fixture
def suite(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    """Import a module of the suite by name."""
    from importlib import import_module

    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return import_module


@pytest.fixture
def equal_workers(suite: Callable[[str], ModuleType]) -> Any:
    """Ten workers at the same distance with one-hot samples, whose mixing ratios are equal and who hear no noise."""
    return suite("bench_slots").Task(
        samples=np.eye(10, dtype=np.float32),
        sample_of_worker=np.arange(10),
        gain=np.full(10, 0.5),
        scheduled=4,
        alpha=1e12,
        received_watts=1e-3,
        most_watts=1.0,
        noise_watts=0.0,
        slot_seconds=2.0,
        slots=50,
    )


@pytest.mark.parametrize("loop", ["per_slot_loop", "per_worker_loop", "sparse_products"])
def test_a_baseline_mixes_and_spends_as_the_paper_says(
    loop: str, equal_workers: Any, suite: Callable[[str], ModuleType]
) -> None:
    mixture, energy_joules = getattr(suite("bench_slots"), loop)(equal_workers, np.random.default_rng(0))
    # Four of ten samples, a quarter of each; every sender has beta q^2 / h^2 = 1e-3 / 0.25 watts for 2 s in 50 slots.
    assert np.sort(mixture) == pytest.approx([0.0] * 6 + [0.25] * 4, abs=1e-4)
    assert energy_joules.sum() == pytest.approx(50 * 4 * 2.0 * 1e-3 / 0.25, rel=1e-4)
    assert (energy_joules > 0).sum() == 10


def test_a_baseline_adds_the_noise_of_its_power(equal_workers: Any, suite: Callable[[str], ModuleType]) -> None:
    from dataclasses import replace

    silent = np.zeros((10, 20_000), dtype=np.float32)
    noisy = replace(equal_workers, samples=silent, noise_watts=2e-3, slots=1)
    for loop in ("per_slot_loop", "per_worker_loop", "sparse_products"):
        mixture, _ = getattr(suite("bench_slots"), loop)(noisy, np.random.default_rng(0))
        # beta = 1e-3 / (1/4)^2, and half of the noise is in the real part: deviation sqrt(1e-3 / 16e-3) = 1 / 4.
        assert mixture.std() == pytest.approx(0.25, rel=0.03), loop


def test_rows_of_the_slots_are_whole(suite: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch) -> None:
    slots, tables = suite("bench_slots"), suite("bench_tables")
    small = suite("made_up_digits").made_up_digits(50, 10)
    monkeypatch.setattr(slots, "made_up_digits", lambda _samples: small)
    *rows, checks = slots.rows("cpu", True, slots=128)
    assert checks["measured"] > 0.0
    assert checks["target"] == {"most": 1.0}
    assert [row["target"] for row in rows] == [{"faster": 6.0}, {"faster": 15.0}, {"faster": 5.0}, {"within": 1.7}]
    for row in rows:
        assert row["ours_seconds"] > 0
        assert row["ratio"] == row["theirs_seconds"] / row["ours_seconds"]
        assert "times" in tables.measured_in_words(row)


@pytest.mark.parametrize(
    ("target", "ours", "theirs", "met", "words"),
    [
        ({"faster": 6}, 0.5, 3.1, True, "6.2 times faster (500 ms; 3.1 s)"),
        ({"faster": 6}, 0.5, 2.9, False, "5.8 times faster (500 ms; 2.9 s) **missed**"),
        ({"faster": 6}, 3.6, 3.1, False, "1.2 times slower (3.6 s; 3.1 s) **missed**"),
        ({"within": 1.5}, 1.4, 1.0, True, "1.40 times (1.4 s; 1 s)"),
        ({"within": 1.5}, 1.6, 1.0, False, "1.60 times (1.6 s; 1 s) **missed**"),
        ({"seconds": 4}, 3.9, None, True, "3.9 s"),
        ({"seconds": 0.3}, 0.25, 0.1, True, "250 ms (beside 100 ms)"),
        ({"seconds": 120}, 1234.0, None, False, "1,234 s **missed**"),
    ],
)
def test_a_row_in_words(
    target: dict[str, float],
    ours: float,
    theirs: float | None,
    met: bool,
    words: str,
    suite: Callable[[str], ModuleType],
) -> None:
    tables = suite("bench_tables")
    row = suite("bench_kit").row("work", "against", ours, theirs, target=target)
    assert (tables.is_met(row), tables.measured_in_words(row)) == (met, words)


def test_what_is_not_there_is_said_and_nothing_else_lost(suite: Callable[[str], ModuleType]) -> None:
    bench, tables = suite("bench"), suite("bench_tables")
    row = suite("bench_kit").missing("work", "against", "Ray is not there")
    assert (tables.is_met(row), tables.measured_in_words(row)) == (None, "Ray is not there")
    (found,) = bench.rows_of("of_nothing", "cpu", True)
    assert found["missing"] == "bench_of_nothing is not there"


def test_exponents_of_power_laws(suite: Callable[[str], ModuleType]) -> None:
    exponent = suite("bench_growth").exponent
    sizes = [10, 100, 1000]
    assert exponent(sizes, [3.0 * size**1.5 for size in sizes]) == pytest.approx(1.5)
    assert exponent(sizes, [7.0, 7.0, 7.0]) == pytest.approx(0.0, abs=1e-12)


def test_plans_are_computed_from_the_measured_costs(suite: Callable[[str], ModuleType]) -> None:
    rows = [
        {"subject": "slots", "work": "all slots of `paper-mnist`", "against": "x", "ours_seconds": 1.0},
        {"subject": "training", "work": "a step of the image network", "against": "x", "ours_seconds": 0.01},
        {"subject": "memory", "work": "bytes a worker beside the data", "against": "", "measured": 50.0},
    ]
    results = {"two ARM cores": {"rows": rows}}
    lines = [line.split(" | ") for line in suite("bench_scaling").plans(results).splitlines()]
    # 10^9 workers, 64 at once, 1 ms each: 15.6 million slots, 4.3 h on the air; 10 µs a slot is 156 s; 50 GB.
    assert lines[4][1:5] == ["16,000,000", "4.3 h", "50 GB", "2.6 min"]
    # 15,630 steps and 10^5 slots in print; 10^4 cells of 1.67 times as many slots, in 31 days.
    assert float(lines[5][4].split()[0]) == pytest.approx((156.3 + 1.0) * 10**4 / 0.6 / 86_400, rel=0.05)


@pytest.mark.record
@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_committed_rows_are_whole(path: Path, suite: Callable[[str], ModuleType]) -> None:
    result = json.loads(path.read_text(encoding="utf-8"))
    tables = suite("bench_tables")
    assert not result["quick"]
    names = [(row["work"], row["against"]) for row in result["rows"]]
    assert len(names) == len(set(names))
    for row in result["rows"]:
        assert "failed" not in row
        assert row["met"] == tables.is_met(row)
        if row["ratio"] is not None:
            assert row["ratio"] == pytest.approx(row["theirs_seconds"] / row["ours_seconds"])
        else:
            assert {"missing", "measured", "points"} & set(row) or row["ours_seconds"] > 0


@pytest.mark.record
def test_the_docs_show_what_was_measured(suite: Callable[[str], ModuleType]) -> None:
    docs, results = suite("bench_docs"), suite("bench_tables").load_results()
    texts = {document: document.read_text(encoding="utf-8") for document in docs.DOCUMENTS}
    assert {document: docs.with_tables(text, results) for document, text in texts.items()} == texts
    for name in docs.SECTIONS:
        assert sum(text.count(f"<!-- measured: {name} -->\n") for text in texts.values()) == 1, name


@pytest.mark.record
def test_every_missed_target_has_a_reason(suite: Callable[[str], ModuleType]) -> None:
    reasons, results = suite("bench_reasons"), suite("bench_tables").load_results()
    assert set(reasons.missed(results)) == set(reasons.REASONS)


def test_a_missed_target_is_listed(suite: Callable[[str], ModuleType]) -> None:
    row = {"work": "w", "against": "a", "ours_seconds": 2.0, "theirs_seconds": 8.0, "ratio": 4.0}
    listed = suite("bench_reasons").reasons
    assert listed({"H200": {"rows": [row | {"target": {"faster": 4.0}}]}}) == "No target is missed."
    assert "| w |  |" in listed({"H200": {"rows": [row | {"target": {"faster": 4.1}}]}})


def test_tables_change_with_the_results(suite: Callable[[str], ModuleType]) -> None:
    docs = suite("bench_docs")
    row = {"subject": "slots", "work": "w", "against": "a", "ours_seconds": 2.0, "theirs_seconds": 8.0, "ratio": 4.0}
    text = "<!-- measured: gpu -->\n{}<!-- end -->\nkept\n<!-- measured: machines -->\n<!-- end -->"
    results = {"H200": {"rows": [row], "machine": {"processor": "p", "memory": "m"}, "versions": {}, "command": "c"}}
    made = docs.with_tables(text.format("old\n"), results)
    assert "| w | a |  | 4 times faster (2 s; 8 s) |" in made
    assert "old" not in made
    assert "kept" in made
    assert made == docs.with_tables(text.format(""), results) == docs.with_tables(made, results)
