"""An attacker that controls the broker of a trial: it hears all messages, and sends a worker an old order again.

TLS does not stop it, and the order bears the server's signature. What stops it is the worker's own ledger.
"""

import shutil
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

from airmixml.deploy.credentials import Authority
from airmixml.deploy.endpoint import DOWN, Endpoint, run_topic
from airmixml.deploy.mqtt import tls_context
from airmixml.deploy.wire import Message, batched, unbatched, unpacked

_NAME: Final = "attacker"


def admit_attacker(folder: Path, run: bytes) -> None:
    """Give it a certificate and all rights on the broker of a deployment, before the broker is started."""
    Authority.read(folder).write(folder / _NAME, _NAME)
    shutil.copyfile(folder / "ca.crt", folder / _NAME / "ca.crt")
    with (folder / "broker" / "acl").open("a", encoding="ascii") as rules:
        rules.write(f"user {_NAME}\ntopic readwrite {run_topic(run)}/#\n")


class Attacker:
    """The attacker's connection to the broker."""

    def __init__(self, folder: Path, server: Endpoint, run: bytes) -> None:
        self._topics, self._arrived = run_topic(run), deque[tuple[float, MQTTMessage]]()
        self._client = Client(CallbackAPIVersion.VERSION2, _NAME, protocol=MQTTProtocolVersion.MQTTv5)
        self._client.tls_set_context(tls_context(folder / _NAME))
        self._client.on_connect = lambda client, *_: client.subscribe(f"{self._topics}/#", qos=1)
        self._client.on_message = lambda _client, _data, each: self._arrived.append((time.monotonic(), each))
        self._client.connect(server.host, server.port)
        self._client.loop_start()

    def heard(self) -> Iterator[tuple[float, Message]]:
        """Yield the messages that have come since the last call, each with the clock's time of its arrival."""
        while self._arrived:
            clock, batch = self._arrived.popleft()
            yield from ((clock, unpacked(each)) for each in unbatched(bytes(batch.payload)))

    def replay(self, order: Message, name: str) -> None:
        """Send a worker an order that was heard; the broker keeps it until the worker is there."""
        self._client.publish(f"{self._topics}/{DOWN}/{name}", batched([order.packed()]), qos=1)

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()
