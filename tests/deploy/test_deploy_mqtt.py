"""The real broker: who is let in, who may publish and read what, and what becomes of a broker that is killed."""

from __future__ import annotations

import os
import select
import shutil
import ssl
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from brokers_for_tests import LAST_RESORT, NEEDS_BROKER, RUN, Stranger, folder_of, message

from airmixml.deploy.endpoint import LARGEST_PAYLOAD, DeployError, Endpoint, run_topic
from airmixml.deploy.mqtt import MqttTransport
from airmixml.deploy.processes import Broker, find_mosquitto
from airmixml.deploy.wire import batched

pytestmark = NEEDS_BROKER

Connect = Callable[..., MqttTransport]
Enter = Callable[..., Stranger]


def received(transport: MqttTransport, count: int) -> list[bytes]:
    found: list[bytes] = []
    end = time.monotonic() + LAST_RESORT
    while len(found) < count:
        assert time.monotonic() < end, f"{len(found)} of {count} messages arrived"
        found += transport.receive(1.0)
    return found


def listen(*transports: MqttTransport) -> None:
    """Until one of them gives up."""
    while True:
        for each in transports:
            each.receive(0.1)


def test_messages_reach_those_that_they_are_for(connect: Connect) -> None:
    server, workers = connect("server"), [connect(f"worker-{number}") for number in range(3)]
    for number, worker in enumerate(workers):
        worker.send(message(number, b"up"), to=1)  # which the server alone can mean
        worker.receive(0.0)
    assert sorted(received(server, 3)) == [message(number, b"up") for number in range(3)]
    server.send(b"for one", to=1)
    server.send(b"for all")
    server.receive(0.0)
    assert [sorted(received(worker, count)) for worker, count in zip(workers, (1, 2, 1), strict=True)] == [
        [b"for all"],
        [b"for all", b"for one"],
        [b"for all"],
    ]


@pytest.mark.parametrize("foreign", ["another authority", "the broker's own", "none of the key"])
def test_a_foreign_certificate_is_refused(
    connect: Connect, deployment: Path, new_deployment: Callable[..., Path], tmp_path: Path, foreign: str
) -> None:
    own = shutil.copytree(folder_of(deployment, "worker-1"), tmp_path / "own")
    other = folder_of(new_deployment(name="other"), "worker-1") if "authority" in foreign else deployment / "broker"
    for name in ("tls.crt", "tls.key")[: 1 if "none" in foreign else 2]:
        shutil.copyfile(other / name, own / name)
    with pytest.raises(DeployError, match="do not belong together" if "none" in foreign else "not reached in 1 s"):
        connect("worker-1", own, patience=1.0)
    worker, server = connect("worker-1"), connect("server")
    worker.send(message(1))
    worker.receive(0.0)
    assert received(server, 1) == [message(1)]


def test_a_client_without_a_certificate_is_refused(connect: Connect, deployment: Path) -> None:
    from paho.mqtt.client import Client, MQTTProtocolVersion
    from paho.mqtt.enums import CallbackAPIVersion

    ended: list[str] = []
    endpoint = Endpoint.read(deployment / "server")
    client = Client(CallbackAPIVersion.VERSION2, "worker-1", protocol=MQTTProtocolVersion.MQTTv5)
    client.tls_set(ca_certs=str(deployment / "ca.crt"))
    client.on_connect = lambda *_: ended.append("let in")
    client.on_disconnect = lambda *_: ended.append("refused")
    client.connect(endpoint.host, endpoint.port)
    while not ended:
        client.loop(1.0)
    assert ended == ["refused"]


def test_a_foreign_broker_is_refused(connect: Connect, deployment: Path, new_deployment: Callable[..., Path]) -> None:
    other = new_deployment(name="other")
    own = folder_of(deployment, "worker-1")
    (own / "ca.crt").unlink()
    shutil.copyfile(other / "ca.crt", own / "ca.crt")
    with pytest.raises(DeployError, match="not of this deployment"):
        connect("worker-1")


def test_a_broker_that_was_killed_is_started_again_by_whoever_keeps_it(
    connect: Connect, broker: Broker, lines: list[str]
) -> None:
    worker, server, seen = connect("worker-1"), connect("server"), list[int]()
    look = broker.kept(seen.append, lines.append)
    look(1)
    broker.process.kill()
    broker.process.wait()
    look(2)
    assert seen == [1, 2]
    assert lines == ["the broker has ended and is started again"]
    end = time.monotonic() + LAST_RESORT
    while worker.connections < 2 or server.connections < 2:
        worker.receive(0.1)
        server.receive(0.1)
        assert time.monotonic() < end
    worker.send(message(1, b"after"))
    worker.receive(0.0)
    assert received(server, 1) == [message(1, b"after")]


def test_no_endpoint_publishes_as_another(connect: Connect, stranger: Enter) -> None:
    server = connect("server")
    for topic in ("up/worker-2", "up/server", "down/worker-2", "all", "up", "up/worker-1/more"):
        assert not stranger("worker-1").publish(topic, batched([message(2)])), topic
    assert stranger("worker-1").publish("up/worker-1", batched([message(1)]))
    assert received(server, 1) == [message(1)]


def test_a_stolen_number_is_refused_behind_a_true_name(connect: Connect, lines: list[str]) -> None:
    server, thief = connect("server"), connect("worker-1")
    thief.send(message(2))
    thief.send(message(1))
    thief.receive(0.0)
    assert received(server, 1) == [message(1)]
    assert [line for line in lines if "refused" in line and "worker-1" in line and "worker 2" in line]


def test_no_endpoint_reads_what_is_for_another(connect: Connect, stranger: Enter) -> None:
    server, worker, spy = connect("server"), connect("worker-2"), stranger("worker-1")
    for topic in ("#", "airmix/+/down/worker-2", "airmix/+/up/+", "$SYS/#"):
        spy.subscribe(topic)
    worker.send(message(2))
    worker.receive(0.0)
    assert received(server, 1) == [message(2)]
    server.send(b"secret", to=2)
    server.receive(0.0)
    assert received(worker, 1) == [b"secret"]
    server.send(b"for all")
    server.receive(0.0)
    topic, payload = spy.heard.get(timeout=LAST_RESORT)
    assert topic.endswith("/all")
    assert payload == batched([b"for all"])


def test_no_endpoint_ends_the_connection_of_another(connect: Connect, stranger: Enter) -> None:
    server, worker = connect("server"), connect("worker-2")
    stranger("worker-1", client_id="worker-2")
    server.send(b"still there", to=2)
    server.receive(0.0)
    assert received(worker, 1) == [b"still there"]
    assert worker.connections == 1


def test_oversized_messages_are_refused_and_disturb_nothing(connect: Connect, stranger: Enter) -> None:
    server, other = connect("server"), connect("worker-2")
    assert not stranger("worker-1").publish("up/worker-1", bytes(LARGEST_PAYLOAD + 1))
    with pytest.raises(DeployError, match="too long"):
        other.send(bytes(LARGEST_PAYLOAD))
    other.send(message(2))
    other.receive(0.0)
    assert stranger("worker-1").publish("up/worker-1", batched([message(1)]))
    assert sorted(received(server, 2)) == [message(1), message(2)]
    assert server.connections == other.connections == 1


@pytest.mark.parametrize(
    "payload", [b"", b"x", b"\xff\xff\xff\xff", b"\0\0\0\1", batched([b""]), batched([b"AMX1"]), bytes(64)]
)
def test_malformed_batches_are_refused_and_disturb_nothing(
    connect: Connect, stranger: Enter, lines: list[str], payload: bytes
) -> None:
    server, rogue = connect("server"), stranger("worker-1")
    assert rogue.publish("up/worker-1", payload)
    assert rogue.publish("up/worker-1", batched([message(1)]))
    assert received(server, 1) == [message(1)]
    assert bool(payload) == any("refused" in line and "worker-1" in line for line in lines)


def test_batches_under_names_of_no_worker_are_refused(deployment: Path, lines: list[str]) -> None:
    """A broker that nobody trusts may say that they come from anyone."""
    with (deployment / "broker" / "acl").open("a", encoding="ascii") as rules:
        rules.write(f"user worker-1\ntopic write {run_topic(RUN)}/up/+\n")
    names = ("server", "worker-7", "gateway-1", "worker", "all")
    with Broker(deployment), ExitStack() as stack:
        own = folder_of(deployment, "server")
        server = stack.enter_context(closing(MqttTransport(Endpoint.read(own), own, RUN, lines.append)))
        rogue = stack.enter_context(closing(Stranger(deployment, "worker-1", "worker-1")))
        for name in names:
            assert rogue.publish(f"up/{name}", batched([message(7)]))
        assert rogue.publish("up/worker-1", batched([message(1)]))
        assert received(server, 1) == [message(1)]
    assert [name for name in names if any("refused" in line and f"'{name}'" in line for line in lines)] == list(names)


def test_all_endpoints_come_back_to_a_broker_that_was_killed(connect: Connect, broker: Broker) -> None:
    server, workers = connect("server"), [connect(f"worker-{number}") for number in range(3)]
    broker.process.kill()
    broker.process.wait()
    broker.start()
    found: set[bytes] = set()
    end = time.monotonic() + LAST_RESORT
    while len(found) < 3:  # what comes before the server is back is lost, so that each sends again
        assert time.monotonic() < end
        for number, worker in enumerate(workers):
            worker.send(message(number))
            worker.flush()
        found.update(server.receive(0.5))
    assert found == {message(number) for number in range(3)}
    heard = [False] * 3
    while not all(heard):
        assert time.monotonic() < end
        server.send(b"for all")
        server.flush()
        heard = [before or b"for all" in worker.receive(0.5) for before, worker in zip(heard, workers, strict=True)]
    assert all(each.connections > 1 for each in (server, *workers))


def test_a_broker_that_stays_away_is_reported_in_one_line(connect: Connect, broker: Broker) -> None:
    server = connect("server")
    server._patience = 0.5  # from here on: a busy machine may take longer to connect
    broker.process.kill()
    broker.process.wait()
    with pytest.raises(DeployError, match="not reached") as told:
        listen(server)
    assert "\n" not in str(told.value)
    with pytest.raises(DeployError, match="not reached"):
        connect("worker-1", patience=0.2)


def test_a_taken_port_is_reported(broker: Broker, deployment: Path) -> None:
    assert broker.process.poll() is None
    with pytest.raises(DeployError, match="is taken"):
        Broker(deployment)


def test_a_broker_that_cannot_start_says_why(deployment: Path) -> None:
    (deployment / "broker" / "acl").unlink()
    with pytest.raises(DeployError, match=r"mosquitto did not start: .*acl"):
        Broker(deployment)


STARTS = """
import sys, time
from pathlib import Path
from airmixml.deploy import mqtt
from airmixml.deploy.processes import Broker
broker = Broker(Path(sys.argv[1]))
print(broker.process.pid, flush=True)
time.sleep(1000)
"""


def test_the_broker_ends_with_the_process_that_started_it(
    start_python: Callable[..., object], deployment: Path
) -> None:
    child = start_python("-c", STARTS, deployment)
    pid = int(child.stdout.readline())
    watched = os.pidfd_open(pid)
    child.kill()
    assert select.select([watched], [], [], LAST_RESORT)[0]
    os.close(watched)


def test_where_mosquitto_is_missing_the_package_is_named(tmp_path: Path) -> None:
    with pytest.raises(DeployError, match="apt-get install mosquitto"):
        find_mosquitto(str(tmp_path))


def test_frames_of_a_gateway_are_batched(
    new_deployment: Callable[..., Path], lines: list[str], connect: Connect
) -> None:
    folder = new_deployment(workers=300, gateways=2, name="with gateways")
    with Broker(folder):
        server = MqttTransport(Endpoint.read(folder / "server"), folder / "server", RUN, lines.append)
        own = folder_of(folder, "gateway-1")
        gateway = MqttTransport(Endpoint.read(own), own, RUN, lines.append)
        sent = [message(number, bytes(512)) for number in range(150, 300)]
        for each in sent:
            gateway.send(each)
        gateway.receive(0.0)
        assert received(server, 150) == sent
        for number in (149, 150, 299):
            server.send(str(number).encode(), to=number)
        server.receive(0.0)
        assert received(gateway, 2) == [b"150", b"299"]
        gateway.close()
        server.close()


def test_whoever_answers_a_later_connection_with_another_certificate_ends_no_run(connect: Connect) -> None:
    worker = connect("worker-0")
    try:
        raise ssl.SSLCertVerificationError("self-signed certificate")
    except OSError:
        worker._on_connect_fail(worker._client, None)
    assert worker.receive(0.0) == []
