"""Workers, server and air of a run in one process: messages go from hand to hand, and nothing is lost."""

from collections import deque
from collections.abc import Mapping
from pathlib import Path

from airmixml.deploy.air_link import EmulatedAir
from airmixml.deploy.contract import Contract
from airmixml.deploy.server import Server
from airmixml.deploy.spending import Spending
from airmixml.deploy.wire import AIR, Message, Type, unpacked
from airmixml.deploy.worker import Device


def new_ledger(contract: Contract, folder: Path) -> Spending:
    """Begin the ledger of all workers of a run in a folder."""
    Spending.create(contract, folder / "ledger")
    return Spending(contract, folder / "ledger")


def carry(server: Server, devices: Mapping[int, Device], air: EmulatedAir | None = None) -> None:
    """Carry letters until the run is over."""
    letters = deque(server.asking())
    while letters:
        letter, found, samples = letters.popleft(), list[Message](), list[Message]()
        if letter.to == AIR:
            samples.append(letter.message)
        for identity in devices if letter.to is None else {letter.to}.intersection(devices):
            for answer in devices[identity].handle(unpacked(letter.message.packed())):
                (samples if answer.type is Type.SAMPLES else found).append(answer)
        if air is not None:
            found += [total for each in samples for total in air.handle(each.packed())]
        letters.extend(server.handle(found))
    assert server.is_over
