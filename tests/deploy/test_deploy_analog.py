"""Analog frames of workers that are processes of their own: reserved first, added up by an air, learned from."""

from __future__ import annotations

import json
import math
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from brokers_for_tests import LAST_RESORT, NEEDS_BROKER, folder_of, high_water, ledger_of
from deploy_histories import AIR_KEY, WORKERS, History, analog_contract, keys
from test_deploy_gnuradio import has_gnu_radio

from airmixml import Scenario
from airmixml.deploy.air import AnalogKind, SumOnAir, as_samples
from airmixml.deploy.compiling import data_of, make_contract, planned_for
from airmixml.deploy.contract import UNITS, Contract
from airmixml.deploy.credentials import create_deployment, free_ports
from airmixml.deploy.endpoint import Endpoint, load_contract
from airmixml.deploy.server_process import open_server
from airmixml.deploy.spending import Spending
from airmixml.deploy.trial import ROWS, deal_rows
from airmixml.deploy.wire import AIR, SERVER, Message, Type, unpack_refusal, unpacked
from airmixml.deploy.worker import Device, Order
from airmixml.deploy.worker_process import vectors
from airmixml.messages import ProtocolError, ScenarioError

ANALOG = (
    "workers.dataset=iris",
    "radio.link=analog",
    "privacy.arithmetic=real",
    "privacy.noise=workers",
    "privacy.most_absent=0",
    "learner.rounds=1",
)
PUBLIC = ("privacy.noise=receiver", "privacy.adversary=server", "mixing.power=fixed", "mixing.power_scale_watts=1e-9")
SIGNING, SERVER_KEY = keys()


def planned(*changes: str, workers: int = 4) -> Scenario:
    return planned_for(Scenario.preset("trustless-wine").with_overrides(*ANALOG, *changes), workers)


def contract_of(*changes: str, workers: int = 4, **budget: Any) -> Contract:
    scenario = planned(*changes, workers=workers)
    public = {f"worker-{each}": bytes([each]) * 32 for each in range(workers)}
    return make_contract(scenario, data_of(scenario), public, bytes(32), **budget)


# What a contract promises.


def test_a_frame_costs_what_it_tells_a_hub_that_hears_it_by_itself() -> None:
    """One Gaussian mechanism for each frame: a row's distance over the worker's own noise, by hand."""
    contract = contract_of("privacy.epsilon=5")
    for kind in contract.kinds:
        assert isinstance(kind, AnalogKind)
        mu_squared = kind.norm**2 * kind.watts / kind.own_watts  # remove-one: a vector, or none
        assert kind.cost == pytest.approx(UNITS * mu_squared, rel=1e-9)
    assert sum(each.cost for each in contract.kinds) <= contract.budget
    assert Contract.from_json(contract.to_json()) == contract
    assert "epsilon 5, delta 1e-05 against everyone" in contract.promise


def test_a_budget_that_frames_exceed_is_refused_with_the_epsilon_that_would_hold() -> None:
    loud = ("mixing.power=fixed", "mixing.power_scale_watts=1e-8", "privacy.epsilon=1")
    with pytest.raises(ProtocolError, match=r"epsilon = 1 of the workers' budget: must be at least (\d+)") as refused:
        contract_of(*loud)
    least = float(str(refused.value).partition("at least ")[2].split()[0])
    assert contract_of(*loud, epsilon=least).epsilon == least


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        (("privacy.noise=receiver", "privacy.adversary=server"), "hub hears every frame"),
        (("privacy.adversary=server",), "hub hears every frame"),
        (("privacy.noise=masked",), 'privacy.noise = "masked": must be "workers"'),
        (("workers.sends=samples", "learner.rounds=0"), 'workers.sends = "samples": must be "moments"'),
        (("mixing.policy=dirmix",), 'mixing.policy = "dirmix": must be "equalmix"'),
        ((*PUBLIC, "radio.fading=rayleigh"), 'radio.fading = "rayleigh": must be "none"'),
        (("air.preset=lab",), "air.preset = lab"),
    ],
)
def test_what_would_not_hold_is_refused_in_one_line(changes: tuple[str, ...], line: str) -> None:
    with pytest.raises(ScenarioError, match=line):
        planned(*changes)


def test_without_privacy_a_contract_says_so() -> None:
    contract = contract_of(*PUBLIC)
    assert (contract.budget, contract.epsilon, contract.share(0)) == (0, 0.0, 0.0)
    assert "no privacy" in contract.promise
    assert [each.cost for each in contract.kinds] == [0, 0]


# What a worker sends.


def order(contract: Contract, number: int = 0, attempt: int = 0, power_dbm: float = math.inf) -> Message:
    body = Order(0, min(power_dbm, contract.power_dbm)).packed()
    return Message(Type.ORDER, SERVER, contract.run, number, attempt, body).signed_with(SERVER_KEY)


def device(contract: Contract, ledger: Path, vector: np.ndarray | None = None) -> Device:
    if not ledger.exists():
        Spending.create(contract, ledger)
    sent = np.zeros(contract.kinds[0].numbers) if vector is None else vector
    return Device(0, contract, SIGNING["worker-0"], lambda kind, told: sent, Spending(contract, ledger))


def test_a_repeated_order_gives_identical_bytes_and_after_a_restart_a_refusal(tmp_path: Path) -> None:
    contract, ledger = analog_contract(), tmp_path / "ledger"
    worker = device(contract, ledger)
    first = worker.handle(order(contract))
    assert [each.type for each in first] == [Type.FRAME, Type.SAMPLES]
    assert worker.handle(order(contract)) == first
    assert first[0].body == sha256(first[1].body[64:]).digest()
    assert [line[0] for line in ledger_of(ledger)] == ["began", "spent"]
    worker.spending.close()
    again = device(contract, ledger)
    for attempt in (0, 1):
        (refusal,) = again.handle(order(contract, attempt=attempt))
        assert refusal.type is Type.REFUSAL
    assert "sent its frame" in unpack_refusal(refusal.body)[0]


def test_nothing_is_sent_before_it_is_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    contract = analog_contract()
    worker, at_signing = device(contract, tmp_path / "ledger"), list[list[str]]()
    said = Device._said

    def watched(self: Device, number: int, attempt: int, kind: Type, body: bytes) -> Message:
        at_signing.append(ledger_of(tmp_path / "ledger")[-1])
        return said(self, number, attempt, kind, body)

    monkeypatch.setattr(Device, "_said", watched)
    worker.handle(order(contract))
    assert len(at_signing) == 2
    assert all(last[:5] == ["spent", "0", "0", "0", "0"] for last in at_signing)


def test_noise_is_the_agreed_and_a_vector_that_is_too_long_is_shortened(tmp_path: Path) -> None:
    """A refusal would tell of the rows, and so would a frame of more than the declared norm."""
    contract = analog_contract()
    kind = contract.kinds[0]
    assert isinstance(kind, AnalogKind)
    direction = np.eye(kind.numbers)[0]
    found = []
    for number in range(200):
        spendable = replace(contract, most_rounds=1000, budget=1 << 62, kinds=(replace(kind, releases=1000),))
        worker = device(spendable, tmp_path / f"ledger-{number}", 1000.0 * direction)
        found.append(as_samples(worker.handle(order(spendable, number))[1].body[64:]).real)
    at_first, elsewhere = np.array(found)[:, 0], np.array(found)[:, 1:]
    assert np.var(elsewhere) == pytest.approx(kind.own_watts, rel=0.12)
    deviation = math.sqrt(kind.own_watts / 200)
    assert np.mean(at_first) == pytest.approx(math.sqrt(kind.watts) * kind.norm, abs=6 * deviation)


# What a server takes as a sum.


@pytest.fixture
def history(tmp_path: Path) -> History:
    """A round in which all workers have sent, what they told the server is lost, and the sum is on its way."""
    found = History(tmp_path, contract=analog_contract())
    found._post(found.server.asking())
    while found._queue[0][0] is not None or unpacked(found._queue[0][1]).type is not Type.SAMPLES:
        to, content = found._queue.pop(0)
        if to == AIR:
            found._to_air(content)
        elif to is not None:
            found._to_device(to, content)
    return found


def the_sum(history: History) -> tuple[Message, SumOnAir]:
    message = unpacked(history._queue[0][1])
    return message, SumOnAir.of(message.body)


def test_a_sum_names_workers_that_signed_for_their_frames(history: History) -> None:
    message, total = the_sum(history)
    assert total.present == tuple(range(WORKERS))
    history.server.handle([message])
    (found,) = history.server.sums
    assert found.present == total.present
    assert history.broken()[0].startswith("liveness")  # one round is left; the sum is exact
    assert len(history.broken()) == 1


@pytest.mark.parametrize("lie", ["another worker", "another frame", "another key", "cut", "another slot"])
def test_a_sum_that_workers_did_not_sign_for_is_not_taken(history: History, lie: str) -> None:
    message, total = the_sum(history)
    proofs, samples, key, number = list(total.proofs), total.samples, AIR_KEY, 0
    if lie == "another worker":
        proofs[2] = proofs[3]
    elif lie == "another frame":
        proofs[2] = bytes(32) + proofs[2][32:]
    elif lie == "another key":
        key = SIGNING["worker-0"]
    elif lie == "cut":
        samples = samples[:-1]
    else:
        number = 1
    body = SumOnAir(total.present, samples, tuple(proofs)).packed()
    history.server.handle([Message(Type.SAMPLES, AIR, message.run, number, 0, body).signed_with(key)])
    assert not history.server.sums
    assert history.lines
    history.server.handle([message])
    assert len(history.server.sums) == 1


def test_too_few_workers_make_no_sum(tmp_path: Path) -> None:
    """Half of the workers are needed; a round that they do not reach is given up in bounded time."""
    history = History(tmp_path, contract=analog_contract())
    for each in (0, 1, 2, 3):
        del history.devices[each]
    history.run()
    assert history.server.is_over
    assert not history.server.sums
    assert history.server.failure


def test_masks_have_no_part_in_such_a_round(tmp_path: Path) -> None:
    """A server that sends other messages of the protocol gets refusals, and no second frame."""
    contract = analog_contract()
    worker = device(contract, tmp_path / "ledger")
    worker.handle(order(contract))
    for kind in (Type.ANNOUNCED, Type.REVEALED, Type.ABSENT, Type.SIGNATURES, Type.DELIVERY):
        body = bytes(8) + bytes(4) if kind is Type.DELIVERY else bytes(4)
        answers = worker.handle(Message(kind, SERVER, contract.run, 0, 0, body).signed_with(SERVER_KEY))
        assert [each.type for each in answers] == [Type.REFUSAL], kind


# Processes of their own.

AIRMIX = ("-c", "from airmixml.cli.main import main; main()")
Start = Callable[..., "subprocess.Popen[str]"]


class System:
    """A deployment whose processes are started one by one."""

    def __init__(self, folder: Path, start: Start, *changes: str, spare: int = 0) -> None:
        self.folder, self._start = folder, start
        scenario = planned(*changes)
        dataset = data_of(scenario)
        self.endpoint: Endpoint = create_deployment(
            folder,
            lambda public, server_key: make_contract(scenario, dataset, public, server_key, spare=spare),
            workers=4,
            port=free_ports(1)[0],
        )
        deal_rows(scenario, dataset, folder, self.endpoint)
        self.contract = load_contract(folder / "server")

    def air(self, *words: str) -> subprocess.Popen[str]:
        child = self._start(*AIRMIX, "air", self.folder, *words)
        assert child.stdout is not None
        assert "listening at tcp://127.0.0.1:" in child.stdout.readline()
        return child

    def server(self, *words: str | Path) -> subprocess.Popen[str]:
        child = self._start(*AIRMIX, "server", self.folder, "--with-broker", "--deadline", "60", "--json", *words)
        assert child.stderr is not None
        while "round 0: sending" not in child.stderr.readline():
            assert child.poll() is None
        return child

    def worker(self, number: int, program: str = AIRMIX[1]) -> subprocess.Popen[str]:
        own = folder_of(self.folder, f"worker-{number}")
        words = ("--folder", own, "--id", f"worker-{number}", "--data", own / ROWS)
        return self._start("-c", program, "worker", *words)

    def wait_until_spent(self, number: int) -> None:
        until = time.monotonic() + LAST_RESORT
        while [line[0] for line in self.ledger(number)] != ["began", "spent"]:
            assert time.monotonic() < until, f"worker {number}: sends nothing"
            time.sleep(0.02)

    def ledger(self, number: int) -> list[list[str]]:
        return [line[:4] for line in ledger_of(folder_of(self.folder, f"worker-{number}") / "ledger")]

    def check_sums(self) -> None:
        """Each sum is that of the samples of the workers that it names, level by level of their grid."""
        server = open_server(self.folder, lambda line: None)
        server.close()
        for found in server.sums:
            kind = self.contract.kinds[found.kind]
            if found.kind or not isinstance(kind, AnalogKind):
                continue  # gradients need the model
            step = kind.step
            levels = np.zeros(kind.numbers)
            for each in found.present:
                rows = folder_of(self.folder, f"worker-{each}") / ROWS
                vector = vectors(self.contract, rows, 1)(0)(0, None).astype(np.float64)
                levels += np.rint(math.sqrt(kind.watts) * vector / step)
            assert np.array_equal(np.rint(found.mean * len(found.present) * math.sqrt(kind.watts) / step), levels)


def told(server: subprocess.Popen[str]) -> dict[str, Any]:
    out, err = server.communicate(timeout=LAST_RESORT)
    assert server.returncode == 0, err
    found: dict[str, Any] = json.loads(out)
    return found


NEEDS_GNU_RADIO = pytest.mark.skipif(not has_gnu_radio(), reason="GNU Radio is not installed: apt-get install gnuradio")
QUIET = (*PUBLIC, "radio.noise_dbm=-300")


class TestProcesses:
    """Broker, server, air and four workers over mutual TLS and ZeroMQ."""

    pytestmark = NEEDS_BROKER

    @pytest.mark.parametrize("runtime", ["adder", pytest.param("gnuradio", marks=NEEDS_GNU_RADIO)])
    def test_the_sum_of_worker_processes_is_exact_without_noise_and_learned_from(
        self, tmp_path: Path, start_python: Start, runtime: str
    ) -> None:
        system = System(tmp_path / "here", start_python, *QUIET)
        air, server = system.air("--runtime", runtime), system.server("--record", system.folder / "sums")
        workers = [system.worker(each) for each in range(4)]
        result = told(server)
        assert [each["workers"] for each in result["rounds"]] == [[0, 1, 2, 3]] * 2
        assert result["accuracy"] > 0.7
        system.check_sums()
        for child in (air, *workers):
            out, err = child.communicate(timeout=LAST_RESORT)
            assert (child.returncode, out) == (0, "")
            assert all("is late" in line for line in err.splitlines())  # a frame that was asked for twice
        for each in range(4):
            assert [line[0] for line in system.ledger(each)] == ["began", "spent"] * 2
        again = told(start_python(*AIRMIX, "server", system.folder, "--replay", system.folder / "sums", "--json"))
        assert again["rounds"] == result["rounds"]
        assert (again["accuracy"], again["budget_spent"]) == (result["accuracy"], 0.0)

    def test_a_worker_that_is_killed_after_reserving_never_sends_in_that_round(
        self, tmp_path: Path, start_python: Start
    ) -> None:
        """It is started again, refuses the round, and takes part in the next; its spending stands."""
        system = System(tmp_path / "here", start_python, *QUIET)
        system.air()
        server = system.server()
        dying = (
            "import os, signal\n"
            "from contextlib import contextmanager\n"
            "from airmixml.deploy.spending import Spending\n"
            "together = Spending.together\n"
            "@contextmanager\n"
            "def reserve_and_die(self):\n"
            "    with together(self):\n"
            "        yield\n"
            "    if self.spent(2) or self._frames:\n"
            "        os.kill(os.getpid(), signal.SIGKILL)\n"
            "Spending.together = reserve_and_die\n"
        ) + AIRMIX[1]
        killed = system.worker(2, dying)
        assert killed.wait(LAST_RESORT) == -9
        assert system.ledger(2) == [["began", "2", "0", "0"], ["spent", "2", "0", "0"]]
        system.worker(2)
        time.sleep(2.0)  # it refuses the round
        for each in (0, 1, 3):
            system.worker(each)
        result = told(server)
        assert [each["workers"] for each in result["rounds"]] == [[0, 1, 3], [0, 1, 2, 3]]
        assert [line[0] for line in system.ledger(2)] == ["began", "spent"] * 2
        system.check_sums()

    @pytest.mark.long
    def test_deploy_up_runs_an_air_too(self, tmp_path: Path, start_python: Start) -> None:
        changes = [word for each in (*ANALOG, "privacy.epsilon=100") for word in ("--set", each)]
        words = ("deploy", "up", "--preset", "trustless-wine", *changes, "--workers", "4", "--set", "learner.rounds=3")
        child = start_python(*AIRMIX, *words, "--deadline", "30", "--out", tmp_path / "up", "--json")
        out, err = child.communicate(timeout=10 * LAST_RESORT)
        assert child.returncode == 0, err
        found = json.loads(out)
        assert [each["round"] for each in found["rounds"]] == [0, 1, 2, 3]
        assert found["killed"] in ("", "worker-1")
        assert 0.0 < found["budget_spent"] <= 1.0

    def test_an_air_that_is_killed_and_started_again_loses_no_frame(self, tmp_path: Path, start_python: Start) -> None:
        """Workers that have sent are asked again and send the same bytes; nothing is spent twice.

        While they wait, their memory is that of a worker that has formed and sent a frame.
        """
        system = System(tmp_path / "here", start_python, "privacy.epsilon=50")
        air, server = system.air(), system.server()
        sending = [system.worker(each) for each in (0, 1, 2)]
        for each in (0, 1, 2):
            system.wait_until_spent(each)
        assert 0 < max(high_water(each.pid) for each in sending) < 60e6
        air.kill()
        air.wait()
        system.air()
        system.worker(3)
        result = told(server)
        assert [each["workers"] for each in result["rounds"]] == [[0, 1, 2, 3]] * 2
        assert 0.0 < result["budget_spent"] <= 1.0
        for each in range(4):
            assert [line[0] for line in system.ledger(each)] == ["began", "spent"] * 2
