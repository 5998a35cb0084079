"""What the table of a run says about workers that do not send, and what would mend it."""

from pathlib import Path

import pytest

from airmixml import Scenario, run
from airmixml.runs.run_rows import run_rows


def told(scenario: Scenario, out: Path) -> str:
    metrics = run(scenario, out=out).to_dict()
    return " ".join(f"{name} {value}" for rows in run_rows(scenario, metrics).values() for name, value in rows)


def test_workers_that_cannot_send_softly_enough_are_counted(tmp_path: Path) -> None:
    """Of 2,000 workers in a square of 500 m only those near its corners need -45 dBm."""
    words = told(Scenario.preset("private-iris").with_overrides("air.min_power_dbm=-45"), tmp_path / "run")
    assert "1,963 of 2,000 workers never sent" in words


@pytest.mark.parametrize(("error", "helps"), [("-30", True), ("-3", False)])
def test_recovery_is_advised_only_where_it_leaves_less_noise(tmp_path: Path, error: str, helps: bool) -> None:
    """It pays where the square of the gain errors in phase, half of 1e-3 or of 0.5, is below the absent share."""
    changes = ("air.absent=0.1", f"air.reciprocity_nmse_db={error}", "workers.count=400", "radio.scheduled=400")
    words = told(Scenario.preset("trustless-iris").with_overrides(*changes), tmp_path / "run")
    assert ("recovers them" in words) == helps
    assert ("would add more" in words) != helps
