"""What becomes of the keys of a deployment that exists: certificates that are made anew, and keys that are revoked.

Neither changes the name of the run, so that ledgers and journal go on. A certificate is made for the key that an
endpoint has, by the authority that it knows: old and new ones fit together, file by file.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID

from airmixml.deploy.contract import Contract
from airmixml.deploy.credentials import BROKER, CLIENT, Authority, link
from airmixml.deploy.endpoint import AIR_NAME, CONTRACT, ENDPOINTS, SERVER_NAME, DeployError, Endpoint, read_file
from airmixml.files import write_bytes, writing_to
from airmixml.messages import shown


def _places(folder: Path, *parts: str) -> dict[str, Path]:
    """Return where these parts and the endpoints of workers are, or were."""
    server = Endpoint.read(folder / SERVER_NAME)
    return {
        **{name: folder / name for name in parts},
        **{name: folder / ENDPOINTS[bool(server.gateways)] / name for name in server.names},
    }


def _chosen(names: Sequence[str], places: dict[str, Path]) -> None:
    for name in names:
        if name not in places:
            raise DeployError(
                f"--id {shown(name)}: must be one of {', '.join(list(places)[:4])} ... {list(places)[-1]}"
            )


def renew(folder: Path, names: Sequence[str] = ()) -> dict[str, datetime]:
    """Write new certificates for these endpoints, or for all whose folders are here; return when each ends.

    An endpoint whose folder was moved away gets a new key too, in a folder to copy from.
    """
    places, authority = _places(folder, BROKER, SERVER_NAME), Authority.read(folder).renewed()
    _chosen(names, places)
    with writing_to(folder):
        write_bytes(folder / "ca.crt", authority.pem)
        for name in names or [each for each, own in places.items() if (own / "tls.key").exists()]:
            own = places[name]
            if not (own / "tls.key").exists():
                authority.write(own, name)
            key = load_pem_private_key(read_file(own / "tls.key"), None)
            assert isinstance(key, ec.EllipticCurvePrivateKey)
            purpose = ExtendedKeyUsageOID.SERVER_AUTH if name == BROKER else CLIENT
            write_bytes(own / "tls.crt", authority.certificate_of(name, key, purpose))
            write_bytes(own / "ca.crt", authority.pem)
    kept = {name: own / "tls.crt" for name, own in places.items() if (own / "tls.crt").exists()}
    return {name: x509.load_pem_x509_certificate(path.read_bytes()).not_valid_after_utc for name, path in kept.items()}


def revoke(folder: Path, names: Sequence[str]) -> Contract:
    """Add the keys of these workers, of all behind a gateway, of the server or of the air to those that are revoked."""
    contract, server = Contract.load(folder / CONTRACT), Endpoint.read(folder / SERVER_NAME)
    places = _places(folder, SERVER_NAME, *([AIR_NAME] if contract.on_air else []))
    own = {SERVER_NAME: [contract.server_key], AIR_NAME: [contract.air_key]}
    own |= {name: [contract.members[each].verifying_key for each in server.numbers(name)] for name in server.names}
    own |= {each.name: [each.verifying_key] for each in contract.members}
    _chosen(names, {**places, **dict.fromkeys(server.worker_names, folder)})
    keys = dict.fromkeys([*contract.revoked, *(key for name in names for key in own[name])])
    found = replace(contract, revoked=tuple(keys))
    with writing_to(folder):
        write_bytes(folder / CONTRACT, found.to_json())
        for place in places.values():
            if (place / CONTRACT).exists():
                new = place / f".{CONTRACT}.new"
                new.unlink(missing_ok=True)
                link(folder / CONTRACT, new)
                new.replace(place / CONTRACT)
    return found
