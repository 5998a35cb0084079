"""Parts of a deployment are killed at every point, on networks of every kind: what was promised holds."""

from collections.abc import Callable
from pathlib import Path

import pytest
from deploy_histories import NETWORKS, PARTS, POINTS, POINTS_ON_AIR, History, analog_contract, small_contract

from airmixml.deploy.contract import Contract


def _histories(
    folder: Path, part: str, point: str, seeds: int, contract: Callable[[], Contract] = small_contract
) -> list[History]:
    return [
        History(
            folder / f"{network}-{in_round}-{seed}", part, point, network, in_round, seed, contract=contract()
        ).run()
        for network in NETWORKS
        for in_round in (0, 1)
        for seed in range(seeds)
    ]


def _check(histories: list[History]) -> None:
    for history in histories:
        told = f"{history.part} killed {history.point}, {history.network}, round {history.in_round}"
        assert history.broken() == [], told
        assert history.durable(), told


@pytest.mark.deploy
@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("part", PARTS)
def test_every_promise_holds_when_a_part_is_killed(part: str, point: str, tmp_path: Path) -> None:
    histories = _histories(tmp_path, part, point, seeds=1)
    _check(histories)
    assert sum(history.kills for history in histories) >= len(histories) // 2  # the point is come to


@pytest.mark.deploy
@pytest.mark.parametrize("point", POINTS_ON_AIR)
@pytest.mark.parametrize("part", PARTS)
def test_every_promise_holds_of_analog_frames(part: str, point: str, tmp_path: Path) -> None:
    histories = _histories(tmp_path, part, point, seeds=2, contract=analog_contract)
    _check(histories)
    assert sum(history.kills for history in histories) >= len(histories) // 2


@pytest.mark.parametrize("point", POINTS_ON_AIR)
@pytest.mark.parametrize("part", ["worker", "air"])
def test_promises_hold_when_a_worker_or_the_air_is_killed_and_messages_are_lost(
    part: str, point: str, tmp_path: Path
) -> None:
    _check([History(tmp_path, part, point, "drop", contract=analog_contract()).run()])


@pytest.mark.parametrize("point", POINTS)
def test_promises_hold_when_a_worker_is_killed_and_messages_are_lost(point: str, tmp_path: Path) -> None:
    _check([History(tmp_path, "worker", point, "drop").run()])


@pytest.mark.parametrize("contract", [small_contract, analog_contract])
def test_a_quiet_run_ends_without_a_deadline_and_with_everybody(
    contract: Callable[[], Contract], tmp_path: Path
) -> None:
    history = History(tmp_path, contract=contract()).run()
    assert history.broken() == []
    assert not any("silent" in line for line in history.lines)
    assert [len(found.present) for found in history.server.sums] == [6, 6]
    assert not history.server.failure
