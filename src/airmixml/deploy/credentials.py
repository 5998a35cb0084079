"""What ``airmix deploy init`` writes: certificates, signing keys, the broker's configuration, a folder per endpoint.

Two kinds of keys: TLS certificates (ECDSA on P-256) say which endpoint a connection belongs to, and the broker lets it
publish and read by that name alone. Signing keys (Ed25519) say which worker a message is from, also behind a gateway;
their public halves are in the contract. The folder of an endpoint holds all that is copied to its machine, but signing
keys that devices make themselves: of these it takes the public halves alone.
"""

import os
import re
import secrets
import shutil
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from airmixml.deploy.contract import Contract
from airmixml.deploy.endpoint import (
    AIR_NAME,
    ALL,
    CONTRACT,
    DOWN,
    ENDPOINTS,
    HOST,
    LARGEST_PAYLOAD,
    LEDGER,
    MOST_WORKERS,
    OWN_KEY,
    SERVER_NAME,
    SIGNING_KEYS,
    UP,
    DeployError,
    Endpoint,
    read_file,
    read_keys,
    run_topic,
)
from airmixml.deploy.spending import Spending
from airmixml.files import sync_folder, writing_to
from airmixml.masks.keys import KEY_BYTES, verifying_key
from airmixml.messages import shown, shown_name

_AUTHORITY: Final = "airmix deployment"
PUBLIC_KEY: Final = ".pub"  # after the name of a worker
MOST_GATEWAYS: Final = 1000
BROKER: Final = "broker"
CLIENT: Final = ExtendedKeyUsageOID.CLIENT_AUTH
VALID: Final = timedelta(days=365)
_CLOCKS_DIFFER: Final = timedelta(minutes=10)
_QUEUED_BYTES: Final = 1 << 30  # for one endpoint that is away; what is beyond is dropped and sent again

MakeContract = Callable[[Mapping[str, bytes], bytes], Contract]
"""Makes the contract from the verifying keys of the workers, by name and in order, and from that of the server."""

_CONFIGURATION: Final = """\
# Written by `airmix deploy init`. Start with: mosquitto -c {folder}/mosquitto.conf
listener {port} {host}
cafile {folder}/ca.crt
certfile {folder}/tls.crt
keyfile {folder}/tls.key
tls_version tlsv1.3
require_certificate true
# A connection is the name in its certificate: as user, and as client id, so that no other can end it.
use_identity_as_username true
use_username_as_clientid true
allow_anonymous false
acl_file {folder}/acl
message_size_limit {largest}
max_queued_messages 0
max_queued_bytes {queued}
max_inflight_messages 1000
persistent_client_expiration 1d
set_tcp_nodelay true
# Nothing rests on the broker's memory: endpoints send again.
persistence false
log_dest stderr
log_type error
log_type warning
log_type notice
"""


@dataclass(frozen=True)
class Authority:
    """Signs the certificates of one deployment."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @staticmethod
    def create() -> "Authority":
        """Return a new one, which signs itself."""
        key = ec.generate_private_key(ec.SECP256R1())
        return Authority(key, _certificate(_AUTHORITY, key, key, datetime.now(UTC), None))

    @staticmethod
    def read(folder: Path) -> "Authority":
        content = read_file(
            folder / "ca" / "ca.key", "bring the owner's key back to where `airmix deploy init` wrote it"
        )
        key = load_pem_private_key(content, None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        return Authority(key, x509.load_pem_x509_certificate(read_file(folder / "ca.crt")))

    def renewed(self) -> "Authority":
        """Return the same authority, whose certificate and what it signs begin now."""
        return replace(self, certificate=_certificate(_AUTHORITY, self.key, self.key, datetime.now(UTC), None))

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(Encoding.PEM)

    def certificate_of(
        self, name: str, key: ec.EllipticCurvePrivateKey, purpose: x509.ObjectIdentifier = CLIENT
    ) -> bytes:
        """Return the certificate (PEM) of an endpoint's key, or of the broker's."""
        now = self.certificate.not_valid_before_utc + _CLOCKS_DIFFER
        return _certificate(name, key, self.key, now, purpose).public_bytes(Encoding.PEM)

    def write(self, folder: Path, name: str, purpose: x509.ObjectIdentifier = CLIENT) -> None:
        """Write a certificate and its private key (PEM) for an endpoint, or for the broker."""
        key = ec.generate_private_key(ec.SECP256R1())
        _write(folder / "tls.crt", self.certificate_of(name, key, purpose), 0o644)
        _write(folder / "tls.key", _private(key))


def _certificate(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    signing_key: ec.EllipticCurvePrivateKey,
    now: datetime,
    purpose: x509.ObjectIdentifier | None,
) -> x509.Certificate:
    """Return the certificate of a key; without a purpose it is that of the authority."""
    others = ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "encipher_only")
    signs = purpose is None
    usage = dict.fromkeys((*others, "decipher_only"), False) | {"key_cert_sign": signs, "crl_sign": signs}
    made = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, _AUTHORITY)]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCKS_DIFFER)
        .not_valid_after(now + VALID)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.BasicConstraints(ca=signs, path_length=0 if signs else None), critical=True)
        .add_extension(x509.KeyUsage(digital_signature=not signs, **usage), critical=True)
    )
    if purpose is not None:
        issued_by = x509.AuthorityKeyIdentifier.from_issuer_public_key(signing_key.public_key())
        made = made.add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        made = made.add_extension(issued_by, critical=False)
    if purpose == ExtendedKeyUsageOID.SERVER_AUTH:
        places = [x509.IPAddress(ip_address(HOST)), x509.DNSName("localhost")]
        made = made.add_extension(x509.SubjectAlternativeName(places), critical=False)
    return made.sign(signing_key, SHA256())


def _private(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def check_new(folder: Path, workers: int, gateways: int) -> None:
    """Refuse numbers that no deployment has, and a folder that exists."""
    if not 0 < workers <= MOST_WORKERS:
        raise DeployError(f"--workers = {workers}: must be from 1 to {MOST_WORKERS:,}")
    if not 0 <= gateways <= min(workers, MOST_GATEWAYS):
        most = min(workers, MOST_GATEWAYS)
        raise DeployError(f"--gateways = {gateways}: must be from 0 (each worker has its own connection) to {most:,}")
    if folder.exists():
        raise DeployError(f"--out {folder}: exists; choose another folder, or remove it with the keys that it holds")


def check_gateways(workers: int, gateways: int, colluders: int) -> None:
    """Refuse fewer colluders than one gateway brings; 0 says that there are none, and so no such gateway."""
    most = -(-workers // gateways) if gateways else 0
    if 0 < colluders < most:
        raise DeployError(
            f"privacy.colluders = {colluders}: must be 0 or at least {most}, the workers behind one of {gateways} "
            "gateways, which colludes with the keys of all of them; raise it, or --gateways"
        )


def create_keys(folder: Path, names: Sequence[str]) -> None:
    """Make the signing keys of workers on their own device, with public halves for ``deploy init --enrolled``."""
    for name in names:
        if not re.fullmatch(r"worker-[0-9]{1,7}", name) or names.count(name) > 1:
            raise DeployError(
                f"--id {shown(name)}: must be the name of a worker, once, such as worker-03 of 16; a gateway's machine "
                "makes a key for each of its workers"
            )
        for path in (folder / f"{name}{OWN_KEY}", folder / f"{name}{PUBLIC_KEY}"):
            if path.exists():
                raise DeployError(f"{path}: exists; keep it if it was enrolled, else choose another --out")
    made: list[Path] = []
    try:
        with writing_to(folder):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            for name in names:
                key = secrets.token_bytes(KEY_BYTES)
                for end, content, mode in ((OWN_KEY, key, 0o600), (PUBLIC_KEY, verifying_key(key), 0o644)):
                    made.append(folder / f"{name}{end}")
                    _write(made[-1], f"{content.hex()}\n".encode(), mode)
            os.sync()
    except BaseException:
        for path in made:
            path.unlink(missing_ok=True)
        raise


def _read_enrolled(folder: Path, names: Sequence[str]) -> dict[str, bytes]:
    """Return the public key of each worker that its device has made."""
    advice = "run `airmix deploy key --id NAME` on each device, and collect the files NAME.pub"
    found = {path.name for path in folder.glob(f"*{PUBLIC_KEY}")}
    wanted = [f"{name}{PUBLIC_KEY}" for name in names]
    for problem, files in (("has no", set(wanted) - found), ("has a superfluous", found - set(wanted))):
        if files:
            more = f" and {len(files) - 1} more" if len(files) > 1 else ""
            raise DeployError(
                f"--enrolled {folder}: {problem} {shown_name(min(files))}{more}, and must hold {wanted[0]} to "
                f"{wanted[-1]}; {advice}"
            )
    keys: dict[bytes, str] = {}
    for name, file in zip(names, wanted, strict=True):
        (key,) = read_keys(folder / file, 1, advice)
        if (other := keys.setdefault(key, name)) != name:
            raise DeployError(f"--enrolled {folder}: {file} is the key of {other} too; each device makes its own")
    return {name: key for key, name in keys.items()}


def held_keys(folder: Path) -> int:
    """Return how many signing keys of workers lie in the folder of a deployment, where its server runs."""
    places = [f"{kind}/{file}" for kind in ENDPOINTS for file in (f"*/{SIGNING_KEYS}", f"*{OWN_KEY}")]
    sizes = [path.stat().st_size for place in places for path in folder.glob(place) if path.is_file()]
    return sum(-(-size // (2 * KEY_BYTES + 1)) for size in sizes)  # a line each; some may be another user's to read


def create_deployment(
    folder: Path,
    make_contract: MakeContract,
    workers: int,
    gateways: int = 0,
    *,
    port: int,
    enrolled: Path | None = None,
) -> Endpoint:
    """Write all folders of a deployment, all or none, and return the server's endpoint.

    Where devices are ``enrolled``, by their public keys in that folder, it makes and writes no key of theirs.
    """
    check_new(folder, workers, gateways)
    if not 0 < port < 1 << 16:
        raise DeployError(f"--port = {port}: must be from 1 to 65535")
    folder = folder.absolute()
    unfinished = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}.airmix-unfinished")
    server = Endpoint(SERVER_NAME, HOST, port, workers, gateways)
    public = None if enrolled is None else _read_enrolled(enrolled, server.worker_names)
    try:
        with writing_to(folder):
            unfinished.mkdir(mode=0o700, parents=True)
            server = _write_all(unfinished, folder, server, make_contract, public)
            os.sync()  # once, not for each of thousands of files
            unfinished.rename(folder)
            sync_folder(folder.parent)
    except BaseException:  # Ctrl-C too: no keys are left behind
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    return server


def _write_all(
    root: Path, folder: Path, server: Endpoint, make_contract: MakeContract, public: Mapping[str, bytes] | None
) -> Endpoint:
    signing_keys: list[bytes] = []
    if public is None:
        signing_keys = [secrets.token_bytes(KEY_BYTES) for _ in range(server.workers)]
        named = zip(server.worker_names, signing_keys, strict=True)
        public = {name: verifying_key(each) for name, each in named}
    server_key, air_key = (secrets.token_bytes(KEY_BYTES) for _ in range(2))
    contract, keys = make_contract(public, verifying_key(server_key)), {SERVER_NAME: [server_key]}
    if contract.on_air:
        contract, keys[AIR_NAME] = replace(contract, air_key=verifying_key(air_key).hex()), [air_key]
        frames, sums = (f"tcp://{HOST}:{port}" for port in free_ports(2))
        server = replace(server, frames=frames, sums=sums)
    authority = Authority.create()
    _write(root / CONTRACT, contract.to_json(), 0o644)
    _write(root / "ca.crt", authority.pem, 0o644)
    _write(root / "ca" / "ca.key", _private(authority.key))
    _write_broker(root, folder / "broker", authority, server, run_topic(contract.run))
    endpoints = root / ENDPOINTS[bool(server.gateways)]
    endpoints.mkdir(mode=0o700)
    for name in (*keys, *server.names):
        own = (root if name in keys else endpoints) / name
        held = keys.get(name) or [signing_keys[each] for each in server.numbers(name) if signing_keys]
        if held:
            _write(own / SIGNING_KEYS, "".join(f"{each.hex()}\n" for each in held).encode())
        own.mkdir(mode=0o700, exist_ok=True)
        replace(server, name=name).write(own)
        link(root / CONTRACT, own / CONTRACT)
        if name != AIR_NAME:
            authority.write(own, name)
            link(root / "ca.crt", own / "ca.crt")
        if name not in keys:
            Spending.create(contract, own / LEDGER)  # here and nowhere else: a ledger that is missing later was lost
    return server


def free_ports(count: int) -> list[int]:
    """Return ports of the loopback address that nothing listens on now."""
    with ExitStack() as held:
        asked = [held.enter_context(socket.create_server((HOST, 0))) for _ in range(count)]
        return [int(each.getsockname()[1]) for each in asked]


def _write_broker(root: Path, final: Path, authority: Authority, server: Endpoint, run: str) -> None:
    own = root / BROKER
    authority.write(own, BROKER, ExtendedKeyUsageOID.SERVER_AUTH)
    link(root / "ca.crt", own / "ca.crt")
    text = _CONFIGURATION.format(
        folder=final, port=server.port, host=server.host, largest=LARGEST_PAYLOAD, queued=_QUEUED_BYTES
    )
    with suppress(KeyError, NotImplementedError):  # started as root it becomes another user, who may not read its key
        text += f"user {own.owner()}\n"
    _write(own / "mosquitto.conf", text.encode(), 0o644)
    rules = (
        f"pattern write {run}/{UP}/%u",
        f"pattern read {run}/{DOWN}/%u",
        f"pattern read {run}/{ALL}",
        f"user {SERVER_NAME}",
        f"topic read {run}/{UP}/+",
        f"topic write {run}/{DOWN}/+",
        f"topic write {run}/{ALL}",
    )
    _write(own / "acl", "".join(f"{rule}\n" for rule in rules).encode())


def link(path: Path, name: Path) -> None:
    """Give a file that all endpoints share another name."""
    try:
        os.link(path, name)  # one file under many names: a contract may be long
    except OSError:  # a file system without
        shutil.copyfile(path, name)


def _write(path: Path, content: bytes, mode: int = 0o600) -> None:
    path.parent.mkdir(mode=0o700, exist_ok=True)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(content)
