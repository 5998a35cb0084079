"""A whole run in one process: the server and all devices, with letters carried from hand to hand."""

from collections import deque
from collections.abc import Callable, Mapping

from airmixml.deploy.server import Letter, Server
from airmixml.deploy.wire import Message, unpacked
from airmixml.deploy.worker import Device

Carry = Callable[[bytes], list[bytes]]
"""What the network makes of a message: nothing, the same, several, others."""


def carry(server: Server, devices: Mapping[int, Device], network: Carry = lambda content: [content]) -> int:
    """Carry letters until the run is over; return how many deadlines had to pass.

    A deadline passes when nothing is on its way. Before it passes once, everything is asked again.
    """
    letters, deadlines = deque(server.asking()), 0
    while not server.is_over:
        asked_again = False
        while True:
            while letters:
                answers = [each for letter in [letters.popleft()] for each in _answers(letter, devices, network)]
                letters.extend(server.handle(answers))
            if server.is_over or asked_again:
                break
            asked_again = True
            letters.extend(server.asking())
        if not server.is_over:
            deadlines += 1
            letters.extend(server.expire())
    for letter in letters:
        _answers(letter, devices, network)
    return deadlines


def _answers(letter: Letter, devices: Mapping[int, Device], network: Carry) -> list[Message]:
    found = []
    for identity in devices if letter.to is None else [letter.to]:
        if identity not in devices:
            continue
        for arrived in network(letter.message.packed()):
            for answer in devices[identity].handle(unpacked(arrived)):
                found += [unpacked(each) for each in network(answer.packed())]
    return found
