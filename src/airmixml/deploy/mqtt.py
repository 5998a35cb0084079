"""MQTT 5 over mutual TLS: the transport of messages between workers, gateways and server.

The broker knows an endpoint by its certificate and keeps its session while it is away. It may lose what it has
confirmed all the same, when it is killed: who needs an answer sends again. Messages travel in batches (``wire``).
"""

import ssl
import struct
import sys
import time
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from threading import Condition, Event
from typing import Any, Final

from paho.mqtt.client import Client, MQTTMessage, MQTTMessageInfo
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

from airmixml.deploy.contract import Contract
from airmixml.deploy.endpoint import (
    ALL,
    COPY_AGAIN,
    DOWN,
    LARGEST_PAYLOAD,
    SERVER_NAME,
    UP,
    DeployError,
    Endpoint,
    read_file,
    run_topic,
)
from airmixml.deploy.wire import HEADER, Log, Transport, batches, unbatched
from airmixml.messages import ProtocolError, reason, shown_name

PATIENCE_SECONDS: Final = 30.0
_FIRST_WAIT_SECONDS: Final = 0.1
_LONGEST_WAIT_SECONDS: Final = 2.0
_SESSION_SECONDS: Final = 3600
_KEEPALIVE_SECONDS: Final = 20
_MOST_IN_FLIGHT: Final = 1000
_MOST_WAITING_BYTES: Final = 1 << 30  # of what arrived and was not read
_GOODBYE_SECONDS: Final = 5.0


class MqttTransport:
    """The connection of one endpoint to the broker of its deployment."""

    def __init__(
        self, endpoint: Endpoint, folder: Path, run: bytes, log: Log, patience: float = PATIENCE_SECONDS
    ) -> None:
        """Connect with the credentials of the endpoint's folder; wait for the broker for so many seconds."""
        self._endpoint, self._run, self._log, self._patience = endpoint, run_topic(run), log, patience
        self._address = f"broker {endpoint.host}:{endpoint.port}"
        self._waiting: dict[str, list[bytes]] = defaultdict(list)
        self._last: MQTTMessageInfo | None = None
        self._changed, self._arrived = Condition(), list[tuple[str, bytes]]()  # and not read yet
        self._ready = Event()  # connected, and subscribed to its topics
        self._lost = time.monotonic()  # when it last became ready, or ceased to be
        self.connections = 0
        self._problem = "no answer"
        self._fatal = ""
        self._client = Client(CallbackAPIVersion.VERSION2, endpoint.name, protocol=MQTTProtocolVersion.MQTTv5)
        self._client.tls_set_context(tls_context(folder))
        self._client.max_inflight_messages_set(_MOST_IN_FLIGHT)
        self._client.reconnect_delay_set(_FIRST_WAIT_SECONDS, _LONGEST_WAIT_SECONDS)  # type: ignore[arg-type]
        self._client.on_connect = self._on_connect
        self._client.on_connect_fail = self._on_connect_fail
        self._client.on_subscribe = self._on_subscribe
        self._client.on_disconnect = self._on_disconnect
        self._client.on_publish = self._on_publish
        self._client.on_message = self._on_message
        settings = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
        settings.SessionExpiryInterval = _SESSION_SECONDS
        settings.ReceiveMaximum = _MOST_IN_FLIGHT
        settings.MaximumPacketSize = LARGEST_PAYLOAD + 1024
        self._client.connect_async(
            endpoint.host, endpoint.port, _KEEPALIVE_SECONDS, clean_start=False, properties=settings
        )
        self._client.loop_start()  # which tries again until it is connected
        if not self._ready.wait(max(patience, 1.0)) or self._fatal:
            self._client.disconnect()
            self._client.loop_stop()
            raise self._away()

    def send(self, message: bytes, to: int | None = None) -> None:
        if len(message) + 4 > LARGEST_PAYLOAD:
            raise DeployError(f"message of {len(message)} bytes is too long; the broker takes {LARGEST_PAYLOAD - 4}")
        topic = f"{UP}/{self._endpoint.name}"
        if self._endpoint.name == SERVER_NAME:
            topic = ALL if to is None else f"{DOWN}/{self._endpoint.standing_for(to)}"
        waiting = self._waiting[topic]
        if not (waiting and waiting[-1] is message):  # for several workers behind one gateway
            waiting.append(message)

    def receive(self, timeout: float) -> list[bytes]:
        """Return what has arrived; see ``Transport``. Raise where the broker has been away for too long."""
        self.flush()
        if self._fatal or (not self._ready.is_set() and time.monotonic() - self._lost > self._patience):
            raise self._away()
        with self._changed:
            self._changed.wait_for(lambda: self._arrived, max(timeout, 0.0))
            arrived, self._arrived = self._arrived, []
        return [each for name, batch in arrived for each in self._opened(name, batch)]

    def close(self) -> None:
        """Send what waits, as far as the broker takes it, and end the connection; its session stays for an hour."""
        if self._ready.is_set():
            self.flush()
            if self._last is not None:
                with suppress(RuntimeError):  # it was sent while the broker was away
                    self._last.wait_for_publish(_GOODBYE_SECONDS)
        self._client.disconnect()
        self._client.loop_stop()

    def flush(self) -> None:
        waiting = dict(self._waiting)
        self._waiting.clear()
        for topic, messages in waiting.items():
            for batch in batches(messages):
                self._last = self._client.publish(f"{self._run}/{topic}", batch, qos=1)

    def _away(self) -> DeployError:
        if self._fatal:
            return DeployError(f"{self._address}: {self._fatal}")
        return DeployError(
            f"{self._address}: not reached in {self._patience:g} s ({self._problem}); start it, or correct the address "
            "or the certificate in the endpoint's folder"
        )

    def _opened(self, name: str, batch: bytes) -> list[bytes]:
        """Return the messages of a batch; those to a server must be of workers that the endpoint stands for."""
        try:
            messages = unbatched(batch)
            if self._endpoint.name != SERVER_NAME:
                return messages
            own = self._endpoint.numbers(name)  # the broker vouches for the name
        except (ProtocolError, DeployError) as problem:
            self._log(f"refused a batch of {len(batch)} bytes from {shown_name(name)}: {problem}")
            return []
        found = []
        for each in messages:
            try:
                sender = HEADER.unpack_from(each)[4]
            except struct.error:
                self._log(f"refused a message of {len(each)} bytes from {name}: it is cut off")
                continue
            if sender in own:
                found.append(each)
            else:
                self._log(f"refused a message from {name}: it says that it is from worker {sender}")
        return found

    # The client calls these from its own thread.

    def _on_connect(self, client: Client, _data: Any, _flags: Any, code: Any, _properties: Any) -> None:
        if code.is_failure:
            self._problem = f"the broker refuses the connection: {code}"
            return
        own = self._endpoint.name
        topics = [f"{UP}/+"] if own == SERVER_NAME else [f"{DOWN}/{own}", ALL]
        client.subscribe([(f"{self._run}/{topic}", SubscribeOptions(qos=1)) for topic in topics])

    def _on_connect_fail(self, _client: Client, _data: Any) -> None:
        problem = sys.exception()
        assert isinstance(problem, OSError)
        self._problem = reason(problem)
        # Of the first connection alone: whoever answers a later one must not end a run.
        if isinstance(problem, ssl.SSLCertVerificationError) and not self.connections:
            why = f"its certificate is not of this deployment ({problem.verify_message})"
            self._fatal = f"{why}; compare ca.crt at both ends"
            self._ready.set()

    def _on_subscribe(self, _client: Client, _data: Any, _mid: int, codes: list[Any], _properties: Any) -> None:
        refused = [str(code) for code in codes if code.is_failure]
        if refused:
            self._fatal = f"does not let {self._endpoint.name} read its topics ({refused[0]}); another run's acl?"
        self._lost = time.monotonic()
        self.connections += 1
        self._ready.set()

    def _on_disconnect(self, _client: Client, _data: Any, _flags: Any, code: Any, _properties: Any) -> None:
        if self._ready.is_set():
            self._ready.clear()
            self._lost = time.monotonic()
        if code.is_failure:
            self._problem = f"connection ended: {code}"

    def _on_publish(self, _client: Client, _data: Any, _mid: int, code: Any, _properties: Any) -> None:
        if code.is_failure:
            self._log(f"{self._address}: refused a message of {self._endpoint.name}: {code}")

    def _on_message(self, _client: Client, _data: Any, message: MQTTMessage) -> None:
        name = message.topic.rpartition("/")[2] if self._endpoint.name == SERVER_NAME else SERVER_NAME
        with self._changed:
            if sum(len(each) for _, each in self._arrived) + len(message.payload) > _MOST_WAITING_BYTES:
                self._log(f"dropped a batch of {len(message.payload)} bytes from {name}: too much waits to be read")
                return
            self._arrived.append((name, bytes(message.payload)))
            self._changed.notify()


def tls_context(folder: Path) -> ssl.SSLContext:
    """Return TLS 1.3 with the certificates of an endpoint's folder."""
    paths = {name: folder / name for name in ("ca.crt", "tls.crt", "tls.key")}
    for path in paths.values():
        read_file(path)  # whose errors name the file; those of ssl do not
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    try:
        context.load_verify_locations(paths["ca.crt"])
        context.load_cert_chain(paths["tls.crt"], paths["tls.key"])
    except (ssl.SSLError, ValueError):
        raise DeployError(
            f"{folder}: one of ca.crt, tls.crt and tls.key is damaged, or they do not belong together; {COPY_AGAIN}"
        ) from None
    return context


def open_line(folder: Path, contract: Contract, log: Log) -> Transport:
    """Return what connects the endpoint of a folder with the others: the broker, and an air where one adds up."""
    endpoint = Endpoint.read(folder)
    line = MqttTransport(endpoint, folder, contract.run, log)
    if not contract.on_air:
        return line
    from airmixml.deploy.air_link import AirLink  # here: others have no room for its sockets

    return AirLink(line, endpoint, log)
