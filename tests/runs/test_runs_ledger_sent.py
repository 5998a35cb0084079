"""What is sent is what the ledger counted: the same people, and no reservation for a run that cannot be."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import airmixml
from airmixml import Scenario
from airmixml.budgets import LedgerFile, Loss, People, Request
from airmixml.messages import LedgerError, ScenarioError
from airmixml.runs import experiment
from airmixml.runs.experiment import ProtectedRunner, Runner

run = partial(airmixml.run, pictures=False)


def write_rows(path: Path, *people: str) -> None:
    rows = [
        f"{who},{0.1 * (place % 7):.1f},{place % 3 / 2},{'yes' if place % 2 else 'no'}"
        for place, who in enumerate(people * 6)
    ]
    path.write_text("\n".join(["patient,a,b,label", *rows]) + "\n")


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "rows.csv"
    write_rows(path, "ada", "bob", "carol", "dora")
    return path


@pytest.fixture
def scenario(table: Path) -> Scenario:
    return Scenario.preset("private-table").with_overrides(
        f'workers.dataset="{table}"',
        'workers.worker_column="patient"',
        'workers.classes=["no", "yes"]',
        "workers.input_lower=[0]",
        "workers.input_upper=[1]",
        "privacy.epsilon=0.5",
        "privacy.delta=1e-3",
    )


@pytest.mark.parametrize("runner", [ProtectedRunner, Runner])
def test_a_file_that_changes_before_it_is_sent_sends_nobody_who_was_not_counted(
    scenario: Scenario, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runner: Any
) -> None:
    """Between reservation and sending, and between two seeds, other people are written into the file."""
    private, scenario = runner is ProtectedRunner, scenario.with_overrides("privacy.epsilon=2")
    ledger = LedgerFile.create(
        tmp_path / "b.sqlite", epsilon=9.0, delta=1e-3, mode="protection" if private else "simulation"
    )
    real, sizes = runner.run_one, []

    def run_one(self: Any, single: Scenario, *given: Any) -> Any:
        write_rows(table, "ada", "bob", "carol", "dora", "eve", "fred", "gina")
        result = real(self, single, *given)
        sizes.append(result.dataset.train_samples)
        return result

    expected = run(scenario, private=private, out=tmp_path / "before").dataset.train_samples
    monkeypatch.setattr(runner, "run_one", run_one)
    run(scenario, private=private, seeds=2, ledger=ledger.path, out=tmp_path / "run")
    assert sizes == [expected] * 2
    (standing,) = ledger.standings()
    assert set(standing.names) <= {"ada", "bob", "carol", "dora"}


def test_a_run_of_more_workers_than_samples_is_refused_before_it_is_reserved(tmp_path: Path) -> None:
    scenario = Scenario.preset("private-iris").with_overrides(
        'workers.holding="dealt"', "workers.count=2000", "radio.scheduled=2000", "privacy.delta=1e-3"
    )
    ledger = LedgerFile.create(tmp_path / "b.sqlite", epsilon=9.0, delta=1e-3)
    with pytest.raises(ScenarioError, match=r"workers.count = 2000: must be at most the \d+ samples"):
        run(scenario, private=True, ledger=ledger.path, out=tmp_path / "run")
    assert ledger.entries() == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.sqlite"]


@pytest.fixture
def after_sending(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Have something happen to the ledger of a protected run between its sending and its settling."""
    real = experiment.learn

    def have(happen: Callable[[], object]) -> None:
        def learn(*args: Any, **kwargs: Any) -> Any:
            learned = real(*args, **kwargs)
            happen()
            return learned

        monkeypatch.setattr(experiment, "learn", learn)

    return have


def spent(ledger: LedgerFile) -> dict[str, float]:
    (standing,) = ledger.standings()
    return dict(zip(standing.names, standing.budget.epsilons(standing.spent).tolist(), strict=True))


@pytest.mark.parametrize("end", ["release", "settle"])
def test_a_run_whose_entry_somebody_ended_meanwhile_is_spent(
    scenario: Scenario, tmp_path: Path, after_sending: Any, end: str
) -> None:
    ledger = LedgerFile.create(tmp_path / "b.sqlite", epsilon=9.0, delta=1e-3)
    after_sending(lambda: getattr(LedgerFile(ledger.path), end)(1, reason="I thought it dead"))
    run(scenario, private=True, ledger=ledger.path, out=tmp_path / "run")
    (entry,) = ledger.entries()
    assert entry.state == "spent"
    assert "I thought it dead" in entry.reason
    assert spent(ledger) == pytest.approx(dict.fromkeys(("ada", "bob", "carol", "dora"), 0.5), rel=1e-6)


@pytest.mark.parametrize("instead", ["nothing", "an older copy", "another run's entry"])
def test_a_run_whose_entry_is_gone_says_what_was_sent(
    scenario: Scenario, tmp_path: Path, after_sending: Any, instead: str
) -> None:
    ledger = LedgerFile.create(tmp_path / "b.sqlite", epsilon=9.0, delta=1e-3)
    shutil.copy(ledger.path, tmp_path / "copy")
    other = Request(about="another", losses={"server": Loss.of(squared_mu=1e-4)}, who=("zoe",))

    def lose() -> None:
        ledger.path.unlink()
        if instead != "nothing":
            shutil.copy(tmp_path / "copy", ledger.path)
        if instead == "another run's entry":
            LedgerFile(ledger.path).reserve([other], People(label="column patient"))

    after_sending(lose)
    with pytest.raises(LedgerError, match=r"entry 1 of .* ledger spend .* --already-sent .* --mu \d") as told:
        run(scenario, private=True, ledger=ledger.path, out=tmp_path / "run")
    mu = float(str(told.value).rsplit("--mu ", 1)[1].split()[0].rstrip(";"))
    assert airmixml.privacy.gaussian_epsilon(mu, 1e-3) == pytest.approx(0.5, rel=1e-6)
    if instead == "another run's entry":
        assert [each.state for each in ledger.entries()] == ["reserved"]
