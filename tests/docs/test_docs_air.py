"""docs/air.md and benchmarks/results/air_*.csv show what benchmarks/results/air.json holds."""

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest


@pytest.mark.record
def test_the_tables_are_those_of_the_results(
    benchmark_script: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script = benchmark_script("air_tables")
    files: dict[str, Path] = {name: getattr(script, name) for name in ("ACCURACY", "ALL_PRIVACY")}
    rows = list(json.loads(script.RESULTS.read_text(encoding="utf-8"))["rows"].values())
    text = script.DOCUMENT.read_text(encoding="utf-8")
    for name, file in files.items():
        monkeypatch.setattr(script, name, tmp_path / file.name)
    for name, made in (("airs", script.airs_table(rows)), ("privacy", script.privacy_table(rows))):
        assert f"<!-- table: {name} -->\n{made}\n" in text
    for file in files.values():
        assert (tmp_path / file.name).read_text(encoding="utf-8") == file.read_text(encoding="utf-8")
        assert f"results/{file.name})" in text


def test_packets_are_sent_at_their_power(benchmark_script: Callable[[str], ModuleType]) -> None:
    """A worker is idle while others send: its energy over the time of its own packets is the power of the link."""
    from airmixml import Scenario
    from airmixml.radio.tally import rehearse

    report = rehearse(Scenario.preset("trustless-digits-digital"), 64, 10)
    assert report.scenario.link.power_dbm == 20.0
    assert benchmark_script("measure_air").mean_power_dbm(report) == pytest.approx(20.0, abs=0.05)
    rows = json.loads(benchmark_script("air_tables").RESULTS.read_text(encoding="utf-8"))["rows"].values()
    sent = [row["mean_power_dbm"] for row in rows if row["preset"] == "trustless-mnist-digital"]
    assert sent == pytest.approx([20.0] * len(sent), abs=0.05)
