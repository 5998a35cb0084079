"""Deployments with an empty contract, a real broker, and endpoints that are connected to it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from brokers_for_tests import CONTRACT, RUN, Stranger, folder_of
from deploy_histories import OPEN

from airmixml.deploy.credentials import create_deployment, free_ports
from airmixml.deploy.endpoint import Endpoint
from airmixml.deploy.mqtt import MqttTransport
from airmixml.deploy.processes import Broker

ROOT = Path(__file__).parents[2]
sys.path += [str(ROOT / "firmware"), str(ROOT / "examples" / "radio")]

Connect = Callable[..., MqttTransport]


@pytest.fixture(autouse=True)
def close_histories() -> Iterator[None]:
    yield
    while OPEN:
        OPEN.pop().close()


@pytest.fixture
def new_deployment(tmp_path: Path) -> Callable[..., Path]:
    """Write a deployment below the test's folder, and return its place."""

    def create(workers: int = 3, gateways: int = 0, name: str = "deployment") -> Path:
        folder = tmp_path / name
        create_deployment(
            folder, lambda _keys, _key: CONTRACT, workers=workers, gateways=gateways, port=free_ports(1)[0]
        )
        return folder

    return create


@pytest.fixture
def deployment(new_deployment: Callable[..., Path]) -> Path:
    return new_deployment()


@pytest.fixture
def broker(deployment: Path) -> Iterator[Broker]:
    with Broker(deployment) as started:
        yield started


@pytest.fixture
def lines() -> list[str]:
    """What endpoints have logged."""
    return []


@pytest.fixture
def connect(broker: Broker, deployment: Path, lines: list[str]) -> Iterator[Connect]:
    """Connect an endpoint of the deployment; all connections end with the test."""
    assert broker.process.poll() is None
    with ExitStack() as stack:

        def connected(name: str, folder: Path | None = None, **options: float) -> MqttTransport:
            own = folder or folder_of(deployment, name)
            made = MqttTransport(Endpoint.read(own), own, RUN, lines.append, **options)
            stack.callback(made.close)
            return made

        yield connected


@pytest.fixture
def stranger(broker: Broker, deployment: Path) -> Iterator[Callable[..., Stranger]]:
    """Connect a client that keeps to no rule, with the credentials of an endpoint."""
    assert broker.process.poll() is None
    with ExitStack() as stack:

        def connected(credentials: str, client_id: str = "") -> Stranger:
            made = Stranger(deployment, credentials, client_id or credentials)
            stack.callback(made.close)
            return made

        yield connected
