"""Certificates that are made anew before they end, and keys that are revoked: the run goes on under its name."""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography import x509
from deploy_histories import AIR_KEY, WORKERS, analog_contract, keys, small_contract
from one_process import carry, new_ledger
from runs_for_tests import deploy, write_rows

from airmixml.deploy import credentials
from airmixml.deploy.air_link import Adder, EmulatedAir
from airmixml.deploy.contract import Contract
from airmixml.deploy.endpoint import DeployError, load_contract
from airmixml.deploy.journal import Journal
from airmixml.deploy.mqtt import tls_context
from airmixml.deploy.renewal import renew, revoke
from airmixml.deploy.server import Server
from airmixml.deploy.server_process import open_server
from airmixml.deploy.wire import Message, Type, unpack_refusal
from airmixml.deploy.worker import Device
from airmixml.deploy.worker_process import open_workers
from airmixml.messages import ProtocolError

REVOKED = 3


def shake_hands(deployment: Path, name: str) -> None:
    """TLS between the folders of the broker and of a worker, in memory; each checks the other's certificate."""
    own = deployment / "broker"
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.verify_mode = ssl.CERT_REQUIRED
    server.load_verify_locations(own / "ca.crt")
    server.load_cert_chain(own / "tls.crt", own / "tls.key")
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    worker = tls_context(deployment / "devices" / name).wrap_bio(back, there, server_hostname="127.0.0.1")
    broker = server.wrap_bio(there, back, server_side=True)
    open_ends = [worker, broker, broker]
    for end in [*open_ends, *open_ends]:
        try:
            end.do_handshake()
        except ssl.SSLWantReadError:
            continue
    broker.write(b"connected")
    assert worker.read(9) == b"connected"


def ends_on(path: Path) -> datetime:
    return x509.load_pem_x509_certificate(path.read_bytes()).not_valid_after_utc


@pytest.fixture
def deployment(tmp_path: Path) -> Path:
    deploy(tmp_path / "deployment")
    return tmp_path / "deployment"


@pytest.fixture
def old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A deployment whose certificates ended yesterday."""

    class LastYear(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:
            return datetime.now(tz) - credentials.VALID - timedelta(days=1)

    with monkeypatch.context() as patch:
        patch.setattr(credentials, "datetime", LastYear)
        deploy(tmp_path / "old")
    return tmp_path / "old"


def test_a_run_whose_certificates_have_ended_goes_on_with_new_ones(old: Path) -> None:
    with pytest.raises(ssl.SSLError):
        shake_hands(old, "worker-3")
    kept = {path: path.read_bytes() for path in old.rglob("*") if path.is_file() and path.suffix != ".crt"}
    ends = renew(old)
    assert len(ends) == 2 + 8
    for end in ends.values():
        assert timedelta(days=364) < end - datetime.now(UTC) < timedelta(days=366)
    shake_hands(old, "worker-3")
    assert {path: path.read_bytes() for path in old.rglob("*") if path.is_file() and path.suffix != ".crt"} == kept


def test_old_and_new_certificates_understand_each_other(deployment: Path) -> None:
    before = {path: path.read_bytes() for path in (deployment / "devices" / "worker-3").glob("*.crt")}
    assert len(before) == 2
    renew(deployment)
    for path, content in before.items():
        assert path.read_bytes() != content
        path.write_bytes(content)  # whichever of the two is not copied yet
        shake_hands(deployment, "worker-3")
    for path, content in before.items():
        path.write_bytes(content)
    shake_hands(deployment, "worker-3")


def test_an_endpoint_that_was_moved_away_gets_files_to_copy(deployment: Path, tmp_path: Path) -> None:
    moved = (deployment / "devices" / "worker-3").rename(tmp_path / "moved")
    assert "worker-3" not in renew(deployment)
    assert "worker-3" in renew(deployment, ["worker-3"])
    new = deployment / "devices" / "worker-3"
    assert sorted(path.name for path in new.iterdir()) == ["ca.crt", "tls.crt", "tls.key"]
    assert (moved / "ledger").exists()
    shake_hands(deployment, "worker-3")


def test_renewal_refuses_in_one_line(airmix: Any, deployment: Path) -> None:
    done = airmix("deploy", "renew", deployment, "--id", "worker-8")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert "--id 'worker-8'" in done.stderr
    done = airmix("deploy", "renew", deployment, "--json")
    assert json.loads(done.stdout)["ends"]["worker-7"] == f"{ends_on(deployment / 'ca.crt'):%Y-%m-%d}"
    (deployment / "ca" / "ca.key").unlink()
    done = airmix("deploy", "renew", deployment)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert "ca.key: cannot be read" in done.stderr


def test_a_revoked_key_is_in_all_contracts_and_the_run_keeps_its_name(airmix: Any, deployment: Path) -> None:
    before = Contract.load(deployment / "contract.json")
    done = airmix("deploy", "revoke", deployment, "--id", "worker-3")
    assert (done.returncode, done.stderr) == (0, "")
    for path in deployment.rglob("contract.json"):
        after = Contract.load(path)
        assert after.revoked == (before.members[3].verifying_key,), path
        assert after.run == before.run
    assert before.to_json() == replace(after, revoked=()).to_json()
    assert len(list(deployment.rglob("contract.json"))) == 10
    revoke(deployment, ["worker-5"])
    assert Contract.load(deployment / "contract.json").revoked_workers == {3, 5}
    done = airmix("deploy", "revoke", deployment, "--id", "nobody")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)


def test_a_contract_that_revokes_what_it_does_not_have_is_refused(deployment: Path) -> None:
    path = deployment / "contract.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "revoked": ["0" * 64]}))
    with pytest.raises(ProtocolError, match=r"contract\.json: revokes '0000.*none of its keys"):
        Contract.load(path)


def test_a_worker_whose_key_was_revoked_does_not_start_and_others_do(
    airmix: Any, deployment: Path, tmp_path: Path
) -> None:
    rows = write_rows(tmp_path / "row.npz", range(1))
    revoke(deployment, ["worker-3"])
    done = airmix("worker", "--id", "worker-3", "--folder", deployment, "--data", rows)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert "worker-3: its key was revoked" in done.stderr
    open_workers(deployment / "devices" / "worker-4", rows, print)


def test_a_gateway_goes_on_without_the_worker_whose_key_was_revoked(tmp_path: Path) -> None:
    deploy(tmp_path / "behind", gateways=2)
    revoke(tmp_path / "behind", ["worker-5"])
    gateway = tmp_path / "behind" / "gateways" / "gateway-1"
    rows = write_rows(tmp_path / "rows.npz", range(4, 8))
    workers = open_workers(gateway, rows, print)
    assert sorted(workers._devices) == [4, 6, 7]
    alone = open_workers(deploy_of(tmp_path, 6), write_rows(tmp_path / "6.npz", range(6, 7)), print)
    np.testing.assert_array_equal(workers._devices[6]._vector(0, None), alone._devices[6]._vector(0, None))


def deploy_of(folder: Path, number: int) -> Path:
    deploy(folder / "single")
    return folder / "single" / "devices" / f"worker-{number}"


def test_a_server_whose_key_was_revoked_is_refused_by_all(airmix: Any, deployment: Path, tmp_path: Path) -> None:
    rows = write_rows(tmp_path / "row.npz", range(1))
    revoke(deployment, ["server"])
    for words in (("server", deployment), ("worker", "--id", "worker-1", "--folder", deployment, "--data", rows)):
        done = airmix(*words)
        assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
        assert "server: its key was revoked" in done.stderr
    contract = small_contract()
    with pytest.raises(ProtocolError, match="server: its key was revoked"):
        device(replace(contract, revoked=(contract.server_key,)), 1, tmp_path)


def device(contract: Contract, number: int, folder: Path) -> Device:
    folder.mkdir(exist_ok=True)
    name = f"worker-{number}"

    def vector(kind: int, _told: Any) -> Any:
        return np.full(contract.kinds[kind].numbers, 0.01 * (1 + number))

    return Device(number, contract, keys()[0][name], vector, new_ledger(contract, folder))


def revoking(contract: Contract) -> Contract:
    return replace(contract, revoked=(contract.members[REVOKED].verifying_key,))


def moments_of(contract: Contract) -> Contract:
    """The same without rounds of gradients."""
    without = contract.scenario.replace("rounds = 1", "rounds = 0")
    return replace(contract, scenario=without, kinds=contract.kinds[:1])


def devices_of(contract: Contract, folder: Path) -> dict[int, Device]:
    return {number: device(contract, number, folder / str(number)) for number in range(WORKERS)}


class Air(EmulatedAir):
    """Notes what it refuses, as its process does."""

    refused = ""

    def handle(self, content: bytes) -> list[Message]:
        try:
            return super().handle(content)
        except ProtocolError as problem:
            self.refused = str(problem)
            return []


@pytest.mark.parametrize("make", [small_contract, analog_contract])
def test_a_server_turns_a_revoked_worker_away_with_one_line_and_learns_from_the_rest(
    make: Callable[[], Contract], tmp_path: Path
) -> None:
    contract, lines = moments_of(make()), list[str]()
    now = revoking(contract)
    server = Server(now, keys()[1], Journal(tmp_path / "journal", now.run), note=lines.append)
    devices = devices_of(now, tmp_path)
    devices[REVOKED] = device(contract, REVOKED, tmp_path / "old")  # it has the contract of before
    air = Air(now, AIR_KEY, Adder()) if now.on_air else None
    server.handle([devices[REVOKED].hello()])
    carry(server, devices, air)
    (found,) = server.sums
    assert found.present == (0, 1, 2, 4, 5)
    mean = 0.01 * np.mean([1, 2, 3, 5, 6])
    assert np.abs(found.mean - mean).max() < 7.0 * np.sqrt(found.variance)
    assert [line for line in lines if "turned away" in line] == ["worker 3 is turned away: its key was revoked"]
    assert server.refusals >= 1
    assert air is None or "worker 3: not signed by a member" in air.refused


def test_workers_take_no_part_in_a_round_of_a_revoked_one(tmp_path: Path) -> None:
    """Their contract is new and the server's is not."""
    contract = moments_of(small_contract())
    server = Server(contract, keys()[1], Journal(tmp_path / "journal", contract.run))
    devices = devices_of(revoking(contract), tmp_path)
    devices[REVOKED] = device(contract, REVOKED, tmp_path / "old")
    (order,) = server.asking()
    (announced,) = server.handle([said for each in devices.values() for said in each.handle(order.message)])
    (refusal,) = devices[0].handle(announced.message)
    assert refusal.type is Type.REFUSAL
    assert "worker 3, whose key was revoked" in unpack_refusal(refusal.body)[0]
    assert devices[0].spending.spent(0) == 0


POINTS = [Type.ANNOUNCE, Type.REVEAL, Type.PARCELS, Type.FRAME, Type.SIGNED, Type.ANSWER]


@pytest.mark.parametrize("point", POINTS)
def test_a_key_may_be_revoked_at_any_point_of_a_round(point: Type, tmp_path: Path) -> None:
    """The server is started again with the new contract; what it took before stays as it was, now and once more."""
    contract = moments_of(small_contract())
    now = revoking(contract)
    server = Server(contract, keys()[1], Journal(tmp_path / "journal", contract.run))
    devices = devices_of(contract, tmp_path)
    letters = server.asking()
    while letters:
        said = [
            answer
            for letter in letters
            for each in (devices if letter.to is None else [letter.to])
            for answer in devices[each].handle(letter.message)
        ]
        if said and said[0].type is point:  # half of the answers are in, that of the revoked worker too
            server.handle(said[: REVOKED + 1])
            break
        letters = server.handle(said)
    server.close()
    server = Server(now, keys()[1], Journal(tmp_path / "journal", now.run))
    _finish(server, devices)
    assert not server.failure
    (found,) = server.sums
    counts = point in POINTS[3:]
    assert (REVOKED in found.present) == counts
    mean = 0.01 * np.mean([1 + each for each in found.present])
    assert np.abs(found.mean - mean).max() < 7.0 * np.sqrt(found.variance)
    server.close()
    again = Server(now, keys()[1], Journal(tmp_path / "journal", now.run))
    np.testing.assert_array_equal(again.sums[0].mean, found.mean)
    assert again.is_over


def _finish(server: Server, devices: dict[int, Device]) -> None:
    """Ask and answer until the run is over; where no answer follows, a deadline passes."""
    letters = server.asking()
    for _ in range(200):
        if server.is_over:
            return
        said: list[Message] = []
        for letter in letters:
            for each in devices if letter.to is None else [letter.to]:
                said += devices[each].handle(letter.message)
        where = server.where
        letters = server.handle(said)
        if server.where == where:
            letters = server.expire() or server.asking()
    pytest.fail("the run does not end")


def test_revoking_reaches_a_server_that_is_started_again(deployment: Path) -> None:
    open_server(deployment, print).close()
    revoke(deployment, ["worker-3"])
    server = open_server(deployment, print)
    assert server.left_out == {3}
    assert server.missing == [0, 1, 2, 4, 5, 6, 7]
    assert load_contract(deployment / "server").revoked_workers == {3}
    with pytest.raises(DeployError, match="must be one of"):
        revoke(deployment, ["worker-99"])
