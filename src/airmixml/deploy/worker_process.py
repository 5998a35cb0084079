"""A worker, or a gateway with its workers, as a process: from the folder of an endpoint to answers over a transport."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final

from airmixml.deploy.contract import Contract
from airmixml.deploy.endpoint import LEDGER, DeployError, Lines, find_folder, load_contract, signing_keys_of_workers
from airmixml.deploy.mqtt import open_line
from airmixml.deploy.spending import Spending
from airmixml.deploy.wire import MOST_IN_BATCH, RUN_OVER, Clock, Log, Message, Transport, Type, read_messages
from airmixml.deploy.worker import Device, Transcripts, Vector, vector_of
from airmixml.messages import ProtocolError, hide_values

_FIRST_HELLO_SECONDS: Final = 1.0
_QUIET_SECONDS: Final = 5.0
_LAST_HELLO_SECONDS: Final = 30.0


class Workers:
    """The workers behind one connection, one or many, and the ledger that they share."""

    def __init__(self, devices: Sequence[Device], spending: Spending, log: Log) -> None:
        self._devices, self._first = {device.identity: device for device in devices}, devices[0]
        self._spending, self._log = spending, log
        self.are_done = False
        self.heard = 0  # messages of the server

    def hello(self) -> Message:
        """Return what one of them says when they start or hear nothing: the server then asks again, and so all."""
        return self._first.hello()

    def answers(self, messages: Iterable[Message]) -> Iterator[list[Message]]:
        """Yield what they answer, in batches; what a batch spends is on the disk by then, in one write."""
        asked = ((message, device) for message in messages for device in self._addressed(message))
        while batch := list(islice(asked, MOST_IN_BATCH)):
            with self._spending.together():
                found = [answer for message, device in batch for answer in device.handle(message)]
            yield found

    def _addressed(self, message: Message) -> Iterable[Device]:
        """Return those that a message is for; what the server did not sign is for none of them."""
        try:
            self._first.check(message)
        except ProtocolError as problem:
            self._log(f"refused: {problem}")
            return ()
        self.heard += 1
        if message.type is Type.OVER and message.round == RUN_OVER:
            self.are_done = True
            return ()
        if message.type is Type.DELIVERY:
            named = self._devices.get(int.from_bytes(message.body[:8], "big"))
            return () if named is None else (named,)
        return self._devices.values()


def drive_workers(
    workers: Workers, transport: Transport, log: Log, patience: float, clock: Clock = time.monotonic
) -> None:
    """Answer the server until the run is over; give up where it is silent for ``patience`` seconds."""
    heard = greet = clock()
    wait = _FIRST_HELLO_SECONDS
    while not workers.are_done:
        now = clock()
        if now - heard >= patience:
            raise DeployError(f"server: silent for {patience:g} s; start it, then this again, or raise --patience")
        if now >= greet:
            transport.send(workers.hello().packed())
            greet, wait = now + wait, min(2.0 * wait, _LAST_HELLO_SECONDS)
        before = workers.heard
        arrived = dict.fromkeys(transport.receive(min(greet, heard + patience) - now))  # repeats are answered once
        for batch in workers.answers(read_messages(arrived, log)):
            for each in batch:
                transport.send(each.packed())
            transport.flush()  # a gateway has many to form: what is ready need not wait for the others
        if workers.heard > before:
            heard, wait = clock(), _QUIET_SECONDS
            greet = heard + wait


def vectors(contract: Contract, data: Path, workers: int) -> Callable[[int], Vector]:
    """Return what gives the vectors of each of so many workers that hold the rows of a file; they are read at once."""
    return partial(vector_of, [contract.payload(kind, data, workers) for kind in range(len(contract.kinds))])


def open_workers(folder: Path, data: Path, log: Log, *, show_values: bool = False) -> Workers:
    """Return the workers of an endpoint's folder with the rows of a file, and their ledger in that folder."""
    contract = load_contract(folder)
    keys = signing_keys_of_workers(folder, contract)
    if keys.keys() <= contract.revoked_workers:
        first = contract.members[min(keys)]
        contract.check_key(first.verifying_key, first.name)
    vector = hide_values(
        lambda: vectors(contract, data, len(keys)), "the owner sees them with --show-values", hide=not show_values
    )
    spending, transcripts = Spending(contract, folder / LEDGER), Transcripts(contract)
    devices = [
        Device(number, contract, key, vector(place), spending, transcripts)
        for place, (number, key) in enumerate(keys.items())
        if number not in contract.revoked_workers
    ]
    return Workers(devices, spending, log)


def run_workers(place: Path, name: str, data: Path, patience: float, *, show_values: bool = False) -> None:
    """Be a worker, or a gateway with its workers, until the run is over."""
    if not patience > 0.0:
        raise DeployError(f"--patience = {patience:g}: must be above 0 seconds")
    folder, log = find_folder(place, name), Lines(name)
    workers = open_workers(folder, data, log, show_values=show_values)
    with closing(open_line(folder, load_contract(folder), log)) as transport:
        drive_workers(workers, transport, log, patience)
