"""A whole run in one process: the server and all devices, with letters carried from hand to hand."""

from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress

from airmixml.deploy.air import EmulatedAir
from airmixml.deploy.attempts import Letter
from airmixml.deploy.server import Server
from airmixml.deploy.wire import AIR, Message, Type, unpacked
from airmixml.deploy.worker import Device
from airmixml.errors import ProtocolError

Carry = Callable[[bytes], list[bytes]]
"""What the network makes of a message: nothing, the same, several, others."""


def carry(
    server: Server,
    devices: Mapping[int, Device],
    network: Carry = lambda content: [content],
    air: EmulatedAir | None = None,
) -> int:
    """Carry letters until the run is over; return how many deadlines had to pass.

    A deadline passes when nothing is on its way. Before it passes once, everything is asked again.
    """
    letters, deadlines = deque(server.asking()), 0
    while not server.is_over:
        asked_again = False
        while True:
            while letters:
                answers = _answers(letters.popleft(), devices, network, air)
                letters.extend(server.handle(answers))
            if server.is_over or asked_again:
                break
            asked_again = True
            letters.extend(server.asking())
        if not server.is_over:
            deadlines += 1
            letters.extend(server.expire())
    for letter in letters:
        _answers(letter, devices, network, air)
    return deadlines


def _answers(letter: Letter, devices: Mapping[int, Device], network: Carry, air: EmulatedAir | None) -> list[Message]:
    found, on_air = list[Message](), list[bytes]()
    if letter.to == AIR:
        on_air = network(letter.message.packed())
    for identity in devices if letter.to is None else {letter.to}.intersection(devices):
        for arrived in network(letter.message.packed()):
            for answer in devices[identity].handle(unpacked(arrived)):
                sent = network(answer.packed())
                if answer.type is Type.SAMPLES:
                    on_air += sent
                else:
                    found += map(unpacked, sent)
    for each in on_air:
        with suppress(ProtocolError):  # what it refuses changes nothing
            assert air is not None
            found += [unpacked(heard) for total in air.handle(each) for heard in network(total.packed())]
    return found
