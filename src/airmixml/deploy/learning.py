"""From sums to models: what the server broadcasts before a round of gradients, and what it has learned so far."""

from dataclasses import replace

from airmixml.data import DataSet
from airmixml.deploy.contract import Contract
from airmixml.deploy.server import Sum
from airmixml.edge.sources import Received, learn_from
from airmixml.edge.training import TrainedModel
from airmixml.errors import ProtocolError
from airmixml.workers.broadcasts import Broadcast


class _Wanted(Exception):
    """A round that was not sent yet is asked for."""

    def __init__(self, told: Broadcast) -> None:
        super().__init__()
        self.told = told


class _Sums:
    """Sums that are there, as a source for ``learn_from``."""

    def __init__(self, sums: list[Sum]) -> None:
        self._slots = [each for each in sums if each.kind == 0]
        self._rounds = [each for each in sums if each.kind == 1]

    def slot(self, number: int) -> Received:
        """Return what a slot of moments gave."""
        return _received(self._slots[number])

    def round(self, number: int, told: Broadcast) -> Received:
        """Return what a round of gradients gave."""
        if number >= len(self._rounds):
            raise _Wanted(told)
        return _received(self._rounds[number])


def _received(found: Sum) -> Received:
    return Received(mean=found.mean, noise_variance=found.variance, present=float(len(found.present)))


class Teacher:
    """Learns from the sums of a run; the same sums always give the same models.

    Args:
        contract: what workers and server agreed on.
        dataset: for its dimensions, and its test rows to score on.
    """

    def __init__(self, contract: Contract, dataset: DataSet) -> None:
        self._scenario, self._dataset = contract.plan, dataset

    def tell(self, sums: list[Sum]) -> Broadcast:
        """Return what to broadcast before the next round of gradients."""
        try:
            self._learn(sums, rounds=sum(each.kind == 1 for each in sums) + 1)
        except _Wanted as wanted:
            return wanted.told
        raise AssertionError("a round that was not sent is always asked for")

    def learned(self, sums: list[Sum]) -> TrainedModel:
        """Return the model that these sums give, with its scores."""
        return self._learn(sums, rounds=sum(each.kind == 1 for each in sums))

    def _learn(self, sums: list[Sum], rounds: int) -> TrainedModel:
        slots = sum(each.kind == 0 for each in sums)
        if not slots:
            raise ProtocolError("no slot of moments has been received, so that nothing is learned")
        scenario = replace(
            self._scenario,
            radio=replace(self._scenario.radio, slots=slots),
            learner=replace(self._scenario.learner, rounds=rounds),
        )
        return learn_from(scenario, self._dataset, _Sums(sums))
