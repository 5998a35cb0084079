"""An attacker who controls the broker, for trials: it hears every order, and sends an old one again.

TLS does not stop it, and the order bears the server's signature. What stops it is the worker's own ledger.
"""

from pathlib import Path
from threading import Event
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509 import load_pem_x509_certificate
from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

from airmixml.deploy.credentials import Authority, link, write_certificate
from airmixml.deploy.endpoint import ALL, DOWN, DeployError, Endpoint, run_topic
from airmixml.deploy.mqtt import tls_context
from airmixml.deploy.wire import Type, batched, unbatched, unpacked

NAME: Final = "attacker"
_PATIENCE_SECONDS: Final = 20.0


def admit_attacker(folder: Path, run: bytes) -> None:
    """Give the attacker a certificate and rights on the broker of a trial, before the broker is started."""
    key = load_pem_private_key((folder / "ca" / "ca.key").read_bytes(), None)
    assert isinstance(key, EllipticCurvePrivateKey)
    authority = Authority(key, load_pem_x509_certificate((folder / "ca.crt").read_bytes()))
    own = folder / NAME
    own.mkdir(mode=0o700)
    write_certificate(own, *authority.issue(NAME))
    link(folder / "ca.crt", own / "ca.crt")
    with (folder / "broker" / "acl").open("a", encoding="ascii") as rules:
        rules.write(f"user {NAME}\ntopic read {run_topic(run)}/{ALL}\ntopic write {run_topic(run)}/{DOWN}/+\n")


class Attacker:
    """Keeps the orders that it hears, by round and attempt."""

    def __init__(self, folder: Path, run: bytes) -> None:
        self._endpoint, self._topic = Endpoint.read(folder / "server"), run_topic(run)
        self.orders: dict[tuple[int, int], bytes] = {}
        self._listens = Event()
        self._client = Client(CallbackAPIVersion.VERSION2, NAME, protocol=MQTTProtocolVersion.MQTTv5)
        self._client.tls_set_context(tls_context(folder / NAME))
        self._client.on_connect = lambda client, *_: client.subscribe(f"{self._topic}/{ALL}", qos=1)
        self._client.on_subscribe = lambda *_: self._listens.set()
        self._client.on_message = self._hear
        self._client.connect(self._endpoint.host, self._endpoint.port)
        self._client.loop_start()
        if not self._listens.wait(_PATIENCE_SECONDS):
            raise DeployError("the broker does not answer the attacker of this trial; see broker/mosquitto.log")

    def replay(self, order: tuple[int, int], worker: int) -> None:
        """Send an order that it has heard to a worker, as if it came from the server."""
        topic = f"{self._topic}/{DOWN}/{self._endpoint.standing_for(worker)}"
        self._client.publish(topic, batched([self.orders[order]]), qos=1)

    def close(self) -> None:
        """End the connection."""
        self._client.disconnect()
        self._client.loop_stop()

    def _hear(self, _client: Client, _data: Any, heard: Any) -> None:
        for each in unbatched(heard.payload):
            message = unpacked(each)
            if message.type is Type.ORDER:
                self.orders.setdefault((message.round, message.attempt), each)
