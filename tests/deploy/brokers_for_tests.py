"""What tests of the network share: an empty contract, and a client that keeps to no rule."""

from __future__ import annotations

import re
import ssl
from hashlib import sha256
from pathlib import Path
from queue import SimpleQueue
from shutil import which
from typing import Any

import pytest
from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

from airmixml.deploy.contract import Contract
from airmixml.deploy.endpoint import Endpoint, run_topic
from airmixml.deploy.wire import Message, Type

NEEDS_BROKER = [
    pytest.mark.deploy,
    pytest.mark.skipif(
        which("mosquitto", path="/usr/sbin:/usr/bin:/usr/local/sbin") is None, reason="mosquitto is not installed"
    ),
]
CONTRACT = Contract(
    scenario="",
    rows={},
    outputs=(),
    targets=None,
    kinds=(),
    rules=(),
    budget=0,
    epsilon=0.0,
    delta=0.0,
    carriers=0,
    most_rounds=0,
    power_dbm=0.0,
    server_key="",
    members=(),
)
LAST_RESORT = 60.0  # seconds; ends a test that hangs
RUN = sha256(CONTRACT.to_json()).digest()


def folder_of(deployment: Path, name: str) -> Path:
    kind = name.partition("-")[0]
    return deployment / {"worker": f"devices/{name}", "gateway": f"gateways/{name}", "server": "server"}[kind]


def message(sender: int, body: bytes = b"", kind: Type = Type.FRAME) -> bytes:
    """A message whose signature is not looked at here."""
    return Message(kind, sender, RUN, body=body, signed=bytes(64)).packed()


def high_water(pid: int) -> int:
    """The most bytes of memory that a process that runs has had; 0 where it has ended."""
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(status["VmHWM"].split()[0]) * 1024 if "VmHWM" in status else 0


class Stranger:
    """A client with the credentials of one endpoint that calls itself, publishes and reads what it likes."""

    def __init__(self, deployment: Path, credentials: str, client_id: str) -> None:
        folder = folder_of(deployment, credentials)
        endpoint = Endpoint.read(folder)
        self.replies: SimpleQueue[Any] = SimpleQueue()
        self.heard: SimpleQueue[tuple[str, bytes]] = SimpleQueue()
        self.client = Client(
            CallbackAPIVersion.VERSION2, client_id, protocol=MQTTProtocolVersion.MQTTv5, reconnect_on_failure=False
        )
        context = ssl.create_default_context(cafile=str(folder / "ca.crt"))
        context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
        self.client.tls_set_context(context)
        self.client.on_connect = lambda *_: self.replies.put("connected")
        self.client.on_subscribe = lambda _client, _data, _mid, codes, _properties: self.replies.put(codes)
        self.client.on_publish = lambda _client, _data, _mid, code, _properties: self.replies.put(not code.is_failure)
        self.client.on_disconnect = lambda *_: self.replies.put(False)
        self.client.on_message = lambda _client, _data, each: self.heard.put((each.topic, each.payload))
        self.client.connect(endpoint.host, endpoint.port)
        self.client.loop_start()
        assert self.replies.get(timeout=LAST_RESORT) == "connected"

    def publish(self, topic: str, payload: bytes) -> bool:
        """Return whether the broker took it; where it does not, it may end the connection."""
        self.client.publish(f"{run_topic(RUN)}/{topic}", payload, qos=1)
        return bool(self.replies.get(timeout=LAST_RESORT))

    def subscribe(self, topic: str) -> Any:
        """Return the broker's answer."""
        self.client.subscribe(topic, qos=1)
        return self.replies.get(timeout=LAST_RESORT)

    def close(self) -> None:
        self.client.disconnect()
        self.client.loop_stop()


def ledger_of(place: Path) -> list[list[str]]:
    """What a ledger has: began or spent, worker, round, attempt, kind, cost."""
    words = {b"B": "began", b"S": "spent"}
    found = re.findall(rb"([BS])(\d+(?: \d+){4})", place.read_bytes())
    return [[words[what], *numbers.decode().split()] for what, numbers in found]
