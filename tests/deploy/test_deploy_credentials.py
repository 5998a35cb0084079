"""What ``deploy init`` writes: keys that fit together, secrets that only their owner reads, all folders or none."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from brokers_for_tests import CONTRACT, RUN
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from airmixml.deploy.contract import Contract
from airmixml.deploy.credentials import create_deployment
from airmixml.deploy.endpoint import SIGNING_KEYS, DeployError, Endpoint, load_contract, read_keys
from airmixml.deploy.mqtt import MqttTransport
from airmixml.deploy.spending import Spending

SECRET = {"tls.key", "ca.key", "signing.key", "acl", "ledger"}


def test_each_certificate_names_its_endpoint_and_is_of_the_authority(deployment: Path) -> None:
    authority = x509.load_pem_x509_certificate((deployment / "ca.crt").read_bytes())
    serials = set()
    for folder in [deployment / "server", deployment / "broker", *(deployment / "devices").iterdir()]:
        certificate = x509.load_pem_x509_certificate((folder / "tls.crt").read_bytes())
        certificate.verify_directly_issued_by(authority)
        assert certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value == folder.name
        key = load_pem_private_key((folder / "tls.key").read_bytes(), None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        assert key.curve.name == "secp256r1"
        assert key.public_key() == certificate.public_key()
        purpose = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        wanted = ExtendedKeyUsageOID.SERVER_AUTH if folder.name == "broker" else ExtendedKeyUsageOID.CLIENT_AUTH
        assert list(purpose) == [wanted]
        lasts = certificate.not_valid_after_utc - certificate.not_valid_before_utc
        assert 365 <= lasts.days <= 366
        serials.add(certificate.serial_number)
    assert len(serials) == 5


def test_only_the_owner_reads_secrets(deployment: Path) -> None:
    for path in deployment.rglob("*"):
        allowed = stat.S_IMODE(path.stat().st_mode)
        if path.is_dir():
            assert allowed == 0o700, path
        elif path.name in SECRET:
            assert allowed == 0o600, path


def test_the_contract_is_made_of_the_keys_that_are_handed_out(tmp_path: Path) -> None:
    told: list[object] = []

    def make(workers: object, server: object) -> Contract:
        told.extend((workers, server))
        return CONTRACT

    create_deployment(tmp_path / "here", make, workers=4, port=1883, gateways=2)
    folders = [tmp_path / "here" / "gateways" / f"gateway-{number}" for number in (0, 1)]
    keys = [key for folder in folders for key in read_keys(folder / SIGNING_KEYS, 2)]
    (server,) = read_keys(tmp_path / "here" / "server" / SIGNING_KEYS, 1)
    public = [Ed25519PrivateKey.from_private_bytes(key).public_key().public_bytes_raw() for key in (*keys, server)]
    assert told == [{f"worker-{number}": public[number] for number in range(4)}, public[4]]
    assert len(set(keys)) == 4
    for folder in folders:
        assert (folder / "contract.json").read_bytes() == CONTRACT.to_json()


@pytest.mark.parametrize(("workers", "gateways"), [(1, 0), (5, 0), (5, 5), (7, 3), (100, 7), (60, 4)])
def test_each_worker_is_behind_one_endpoint(workers: int, gateways: int) -> None:
    endpoint = Endpoint("server", "127.0.0.1", 1, workers, gateways)
    behind = {number: name for name in endpoint.names for number in endpoint.numbers(name)}
    assert sorted(behind) == list(range(workers))
    assert behind == {number: endpoint.standing_for(number) for number in range(workers)}
    sizes = [len(endpoint.numbers(name)) for name in endpoint.names]
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("gateways", [0, 2])
@pytest.mark.parametrize(
    "name", ["server", "worker-5", "gateway-5", "worker-01", "worker-", "all", "-1", "worker-\u0661"]
)
def test_a_name_that_is_none_of_the_deployment_stands_for_no_worker(name: str, gateways: int) -> None:
    with pytest.raises(DeployError, match="is not part of the deployment"):
        Endpoint("server", "127.0.0.1", 1, 5, gateways).numbers(name)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"workers": 0}, "--workers = 0"),
        ({"workers": 2, "gateways": 3}, "--gateways = 3"),
        ({"workers": 2, "port": 0}, "--port = 0"),
    ],
)
def test_what_cannot_be_deployed_is_refused(tmp_path: Path, options: dict[str, int], named: str) -> None:
    with pytest.raises(DeployError, match=named):
        create_deployment(tmp_path / "here", lambda _keys, _key: CONTRACT, **{"port": 1883, **options})
    assert not list(tmp_path.iterdir())


def test_nothing_is_left_where_a_contract_cannot_be_made(tmp_path: Path) -> None:
    def fail(_keys: object, _key: object) -> Contract:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        create_deployment(tmp_path / "here", fail, workers=2, port=1883)
    assert not list(tmp_path.iterdir())


def test_a_folder_with_keys_is_never_replaced(deployment: Path) -> None:
    before = (deployment / "server" / "signing.key").read_bytes()
    with pytest.raises(DeployError, match="exists"):
        create_deployment(deployment, lambda _keys, _key: CONTRACT, workers=2, port=1883)
    assert (deployment / "server" / "signing.key").read_bytes() == before


@pytest.mark.parametrize(
    "change",
    [
        {"name": "worker-7"},
        {"name": "../worker-1"},
        {"name": 3},
        {"port": 0},
        {"port": "1883"},
        {"workers": 0},
        {"gateways": 4},
        {"more": 1},
    ],
)
def test_a_damaged_description_is_refused(deployment: Path, change: dict[str, object]) -> None:
    folder = deployment / "devices" / "worker-1"
    described = json.loads((folder / "endpoint.json").read_text())
    (folder / "endpoint.json").write_text(json.dumps({**described, **change}))
    with pytest.raises(DeployError, match="endpoint"):
        Endpoint.read(folder)


@pytest.mark.parametrize("content", ["", "[]", "{", "\x00", "12"])
def test_what_is_no_description_is_refused(deployment: Path, content: str) -> None:
    (deployment / "server" / "endpoint.json").write_text(content)
    with pytest.raises(DeployError, match="endpoint"):
        Endpoint.read(deployment / "server")


def test_a_missing_or_cut_off_key_is_named(deployment: Path, new_deployment: Callable[..., Path]) -> None:
    path = deployment / "server" / "signing.key"
    path.write_text(path.read_text()[:-2])
    with pytest.raises(DeployError, match="signing"):
        read_keys(deployment / "server" / SIGNING_KEYS, 1)
    path.unlink()
    with pytest.raises(DeployError, match="signing"):
        read_keys(deployment / "server" / SIGNING_KEYS, 1)


@pytest.mark.parametrize("gateways", [0, 2])
def test_the_ledger_of_each_endpoint_is_begun(new_deployment: Callable[..., Path], gateways: int) -> None:
    folder = new_deployment(gateways=gateways)
    ledgers = sorted(folder.rglob("ledger"))
    names = [f"gateway-{number}" for number in range(2)] if gateways else [f"worker-{number}" for number in range(3)]
    assert [path.parent.name for path in ledgers] == names
    for path in ledgers:
        Spending(CONTRACT, path).close()


@pytest.mark.parametrize(
    ("file", "read"),
    [
        ("endpoint.json", Endpoint.read),
        ("contract.json", load_contract),
        ("signing.key", lambda folder: read_keys(folder / SIGNING_KEYS, 1)),
        ("tls.crt", lambda folder: MqttTransport(Endpoint.read(folder), folder, RUN, print)),
    ],
)
def test_advice_to_copy_a_file_again_spares_the_ledger(
    deployment: Path, file: str, read: Callable[[Path], object]
) -> None:
    folder = deployment / "devices" / "worker-1"
    (folder / file).unlink()
    with pytest.raises(DeployError, match=f"{file}.*keep the file `ledger`") as told:
        read(folder)
    assert "copy the folder" not in str(told.value)
