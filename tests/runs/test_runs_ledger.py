"""Runs that keep budgets: reserved before anything is sent, settled by what was spent, and nothing told of the draw."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import airmixml
from airmixml import PrivacyError, Scenario
from airmixml.budgets import LedgerFile, People
from airmixml.messages import LedgerError, ScenarioError
from airmixml.privacy import gaussian_epsilon
from airmixml.runs import spending
from airmixml.runs.experiment import Runner
from airmixml.runs.spending import plan_spending
from airmixml.streams import Streams

run = partial(airmixml.run, pictures=False)
Finished = subprocess.CompletedProcess[str]


@pytest.fixture
def dealt() -> Scenario:
    """A hundred workers with a row of Iris each, all sending once; epsilon 1 at delta 1e-3 against the server."""
    return Scenario.preset("private-iris").with_overrides(
        'workers.holding="dealt"',
        "workers.count=100",
        "radio.scheduled=100",
        "privacy.epsilon=1",
        "privacy.delta=1e-3",
    )


@pytest.fixture
def several() -> Scenario:
    """The same workers, 20 of them at a time in 30 slots."""
    return Scenario.preset("paper-iris").with_overrides(
        'workers.holding="dealt"',
        "workers.count=100",
        "radio.scheduled=20",
        "radio.slots=30",
        "learner.epochs=1",
        "privacy.epsilon=4",
        'privacy.accountant="gdp"',
        'privacy.adversary="server"',
    )


def epsilons(ledger: LedgerFile, adversary: str = "server") -> np.ndarray:
    (standing,) = [each for each in ledger.standings() if each.adversary == adversary]
    return standing.budget.epsilons(standing.spent)


def test_a_run_may_use_a_budget_up_and_no_second_one_starts(dealt: Scenario, tmp_path: Path) -> None:
    ledger = LedgerFile.create(tmp_path / "b.sqlite", epsilon=1.0, delta=1e-3)
    result = run(dealt, private=True, ledger=ledger.path, out=tmp_path / "one")
    assert ledger.facts()["people"] == People(label="rows of iris", count=150)
    spent = epsilons(ledger)
    assert sorted(set(spent.round(9))) == [0.0, 1.0]
    assert (spent > 0).sum() == 100
    assert spent.max() == pytest.approx(result.privacy[0].epsilon, rel=1e-9)
    with pytest.raises(PrivacyError, match=r"a worker would pass .* nothing was sent; nothing more fits"):
        run(dealt, private=True, ledger=ledger.path, out=tmp_path / "two")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.sqlite", "one"]
    assert len(ledger.entries()) == 1


def test_all_seeds_are_reserved_before_the_first_is_sent(dealt: Scenario, tmp_path: Path) -> None:
    ledger = LedgerFile.create(tmp_path / "b.sqlite", epsilon=1.2, delta=1e-3)
    with pytest.raises(PrivacyError, match="each would fit"):
        run(dealt, private=True, ledger=ledger.path, seeds=3, out=tmp_path / "three")
    assert [path.name for path in tmp_path.iterdir()] == ["b.sqlite"]
    run(dealt.with_overrides("privacy.epsilon=0.5"), private=True, ledger=ledger.path, seeds=3, out=tmp_path / "three")
    assert [each.state for each in ledger.entries()] == ["spent"] * 3
    worst = epsilons(ledger).max()
    # Rows that all three seeds drew spent mu^2 three times.
    one = next(each for each in ledger.entries()).largest["server"]["squared_mu"]
    assert worst == pytest.approx(gaussian_epsilon((3 * one) ** 0.5, 1e-3), rel=1e-6)


def test_rows_are_known_again_whatever_worker_they_are_on(dealt: Scenario, tmp_path: Path) -> None:
    """Seeds split and deal the rows anew: of 150, a hundred each time, and nobody is mistaken for another."""
    ledger = LedgerFile.create(tmp_path / "b.sqlite", epsilon=9.0, delta=1e-3, mode="simulation")
    for seed in range(2):
        run(dealt.with_seed(seed), ledger=ledger.path, out=tmp_path / f"run-{seed}")
    (standing,) = ledger.standings()
    once = ledger.entries()[0].largest["server"]["squared_mu"]
    times = np.round(standing.spent.squared_mu / once).astype(int)
    in_pool = [Streams(seed).generator("data").permutation(150)[:100] for seed in range(2)]
    expected = np.bincount(np.concatenate(in_pool), minlength=150)
    assert (times == expected).all()


def test_a_protected_run_costs_everybody_the_bound_and_tells_nothing_of_the_draw(
    several: Scenario, tmp_path: Path
) -> None:
    kept = []
    for turn in range(2):  # two secrets draw two schedules; the ledgers have the same numbers
        ledger = LedgerFile.create(tmp_path / f"{turn}.sqlite", epsilon=5.0, delta=0.02, adjacency="replace-one")
        result = run(several, private=True, ledger=ledger.path, out=tmp_path / f"run-{turn}")
        (standing,) = ledger.standings()
        kept.append(standing.spent)
        assert len(set(standing.spent.squared_mu.tolist())) == 2  # in the pool, and not
        server = next(each for each in result.privacy if (each.adversary, each.accountant) == ("server", "gdp"))
        bound = gaussian_epsilon(float(standing.spent.squared_mu.max()) ** 0.5, server.delta)
        assert bound >= server.epsilon
        assert float(standing.spent.delta.max()) == server.schedule_failure > 0.0
    assert all((getattr(kept[0], part) == getattr(kept[1], part)).all() for part in ("squared_mu", "epsilon", "delta"))


def test_a_simulation_is_settled_by_what_each_worker_spent(several: Scenario, tmp_path: Path) -> None:
    ledger = LedgerFile.create(
        tmp_path / "b.sqlite",
        epsilon=50.0,
        delta=0.02,
        adjacency="replace-one",
        mode="simulation",
        adversaries=("server", "release"),
    )
    result = run(several, ledger=ledger.path, out=tmp_path / "run")
    stored = np.load(tmp_path / "run" / "ledger.npz")["epsilon"]
    by_adversary = {each.adversary: each for each in ledger.standings()}
    own = np.sort(by_adversary["server"].spent.squared_mu)[-100:]
    found = np.sort([gaussian_epsilon(mu2**0.5, 0.01) for mu2 in own])
    assert found == pytest.approx(np.sort(stored), rel=1e-6)
    assert by_adversary["server"].spent.delta.max() == 0.0  # once it is drawn a schedule cannot fail
    release = by_adversary["release"].spent
    least = min(
        each.epsilon for each in result.privacy if (each.adversary, each.adjacency) == ("release", "replace-one")
    )
    alone = max(float(release.epsilon.max()), gaussian_epsilon(float(release.squared_mu.max()) ** 0.5, 0.01))
    assert alone == pytest.approx(least, rel=1e-6)


def test_a_row_on_several_workers_loses_their_amplitudes_added_up(tmp_path: Path) -> None:
    scenario = Scenario.preset("private-iris").with_overrides(
        "privacy.epsilon=0.1", "workers.count=300", "radio.scheduled=300"
    )
    ledger = LedgerFile.create(tmp_path / "b.sqlite", epsilon=100.0, delta=0.01, mode="simulation")
    result = run(scenario, ledger=ledger.path, out=tmp_path / "run")
    assert result.row_copies > 3
    assert result.row_privacy is not None
    assert epsilons(ledger).max() == pytest.approx(result.row_privacy.epsilon, rel=1e-6)
    with pytest.raises(ScenarioError, match=r'workers.holding = "drawn"'):
        run(scenario, private=True, ledger=LedgerFile.create(tmp_path / "p", epsilon=1, delta=1e-3).path)


def test_what_a_ledger_cannot_count_is_refused(dealt: Scenario, tmp_path: Path) -> None:
    ledger = LedgerFile.create(tmp_path / "b.sqlite", epsilon=1.0, delta=1e-3)
    with pytest.raises(LedgerError, match="this is simulation; add --private"):
        run(dealt, ledger=ledger.path)
    with pytest.raises(LedgerError, match=r"set privacy.adjacency = remove-one"):
        run(dealt.with_overrides('privacy.adjacency="replace-one"'), private=True, ledger=ledger.path)
    with pytest.raises(ScenarioError, match=r'mixing.power = "max"'):
        run(dealt.with_overrides('mixing.power="max"'), private=True, ledger=ledger.path)
    with pytest.raises(LedgerError, match="there is no such ledger"):
        run(dealt, private=True, ledger=tmp_path / "nowhere")
    near = LedgerFile.create(tmp_path / "near", epsilon=1.0, delta=1e-3, adversaries=("eavesdropper",))
    with pytest.raises(PrivacyError, match="adversary eavesdropper"):
        run(dealt.with_overrides('radio.fading="rayleigh"'), private=True, ledger=near.path)
    assert ledger.entries() == []


@pytest.mark.parametrize("adjacency", ["remove-one", "replace-one"])
def test_the_servers_loss_stands_in_for_the_release_where_neighbours_have_the_same_seats(
    dealt: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, adjacency: str
) -> None:
    """A hidden schedule gives a removed worker's seat to another: 99 colluders make the release's mu larger."""
    hidden = dealt.with_overrides(
        f'privacy.adjacency="{adjacency}"', "radio.scheduled=10", "radio.slots=20", "privacy.colluders=99"
    )
    hidden = airmixml.settle(hidden.with_overrides('workers.sends="samples"'))
    losses = spending.planned_losses(hidden, 5, 3)
    server, release = losses["server"], losses["release"]
    assert server is not None
    assert release is not None
    assert (release.squared_mu > 2 * server.squared_mu).all() == (adjacency == "remove-one")
    real = spending._loss_to

    def refuse_release(name: str, *given: Any) -> Any:
        if name == "release":
            raise PrivacyError("nothing is certified")
        return real(name, *given)

    monkeypatch.setattr(spending, "_loss_to", refuse_release)
    both = ("server", "release")
    ledger = LedgerFile.create(
        tmp_path / "b.sqlite", epsilon=99.0, delta=0.1, mode="simulation", adjacency=adjacency, adversaries=both
    )
    plan = plan_spending(hidden, 1, ledger.path)
    if adjacency == "replace-one":
        plan.check()
    else:
        with pytest.raises(PrivacyError, match=r"adversary release: .* nothing bounds"):
            plan.check()


def test_a_study_that_died_settles_what_it_had_finished_and_repeats_cost_nothing(
    dealt: Scenario, tmp_path: Path
) -> None:
    ledger = LedgerFile.create(tmp_path / "b.sqlite", epsilon=1.0, delta=1e-3, mode="simulation")
    plan_spending(dealt, 1, ledger.path).reserve(())  # and then it is killed
    plan_spending(dealt, 1, ledger.path).reserve((dealt.seed,))
    assert [each.state for each in ledger.entries()] == ["spent"]
    run(dealt, ledger=ledger.path, out=tmp_path / "run")  # the same noise once more
    assert len(ledger.entries()) == 1
    assert epsilons(ledger).max() == pytest.approx(1.0, rel=1e-6)
    with pytest.raises(PrivacyError, match="nothing was sent"):
        run(dealt.with_seed(1), ledger=ledger.path, out=tmp_path / "other")


def test_seeds_that_were_finished_without_a_ledger_count_when_the_others_are_resumed_with_one(
    dealt: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class KilledError(Exception):
        pass

    real = Runner.run_one

    def run_one(self: Runner, scenario: Scenario, *given: Any) -> Any:
        if scenario.seed == 1:
            raise KilledError
        return real(self, scenario, *given)

    with monkeypatch.context() as patch:
        patch.setattr(Runner, "run_one", run_one)
        with pytest.raises(KilledError):
            run(dealt, seeds=2, out=tmp_path / "run")
    small = LedgerFile.create(tmp_path / "a.sqlite", epsilon=1.0, delta=1e-3, mode="simulation")
    with pytest.raises(PrivacyError, match="would pass its budget"):
        run(dealt, seeds=2, out=tmp_path / "run", ledger=small.path)
    ledger = LedgerFile.create(tmp_path / "b.sqlite", epsilon=9.0, delta=1e-3, mode="simulation")
    run(dealt, seeds=2, out=tmp_path / "run", ledger=ledger.path)
    assert [(each.about[-6:], each.state) for each in ledger.entries()] == [("seed 0", "spent"), ("seed 1", "spent")]


def test_people_have_names_where_the_data_do(tmp_path: Path) -> None:
    rows = [f"{who},{0.1 * (place % 7):.1f},{place % 3 / 2},{'yes' if place % 2 else 'no'}"
            for place, who in enumerate(["ada", "bob", "carol", "dora"] * 6)]  # fmt: skip
    data = tmp_path / "rows.csv"
    data.write_text("\n".join(["patient,a,b,label", *rows]) + "\n")
    scenario = Scenario.preset("private-table").with_overrides(
        f'workers.dataset="{data}"',
        'workers.worker_column="patient"',
        'workers.classes=["no", "yes"]',
        "workers.input_lower=[0]",
        "workers.input_upper=[1]",
        "privacy.epsilon=0.5",
        "privacy.delta=1e-3",
    )
    ledger = LedgerFile.create(tmp_path / "b.sqlite", epsilon=1.0, delta=1e-3)
    run(scenario, private=True, ledger=ledger.path, out=tmp_path / "run")
    (standing,) = ledger.standings()
    assert standing.names == ("ada", "bob", "carol", "dora")
    assert epsilons(ledger) == pytest.approx([0.5] * 4, rel=1e-6)


def test_a_killed_run_keeps_its_reservation_until_somebody_says_what_was_sent(
    start_python: Callable[..., subprocess.Popen[str]], airmix: Callable[..., Finished], tmp_path: Path
) -> None:
    assert (
        airmix(
            "ledger", "create", "b.sqlite", "--epsilon", "4.01", "--delta", "1e-3", "--adjacency", "replace-one"
        ).returncode
        == 0
    )
    command = ["run", "--preset", "paper-iris", "--set", "workers.holding=dealt", "--set", "workers.count=100"]
    command += ["--set", "privacy.epsilon=4", "--set", "privacy.accountant=gdp", "--set", "privacy.adversary=server"]
    command += ["--set", "privacy.delta=1e-3", "--set", "learner.epochs=100000", "--private", "--ledger", "b.sqlite"]
    child = start_python("-m", "airmixml", *command)
    ledger = LedgerFile(tmp_path / "b.sqlite")
    try:
        until = time.monotonic() + 60
        while not ledger.entries():
            assert child.poll() is None, child.communicate()
            assert time.monotonic() < until
            time.sleep(0.1)
    finally:
        child.kill()
        child.wait()
    assert [each.state for each in ledger.entries()] == ["reserved"]
    again = airmix(*command)
    assert again.returncode == 2
    assert "would pass its budget" in again.stderr
    done = airmix("ledger", "release", "b.sqlite", "1", "--reason", "the power was off", "--json")
    assert json.loads(done.stdout)["state"] == "released"
    check = airmix("ledger", "check", "b.sqlite", *command[1:-3])
    assert check.returncode == 0, check.stderr
