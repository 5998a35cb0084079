"""From sums to models: what the server broadcasts before a round of gradients, and what it has learned so far."""

from dataclasses import replace

from airmixml.data import DataSet
from airmixml.deploy.attempts import Sum
from airmixml.deploy.contract import Contract
from airmixml.edge.models import TrainedModel
from airmixml.edge.sources import NoMoreRounds, Received, learn_from
from airmixml.errors import ProtocolError
from airmixml.workers.broadcasts import Broadcast


class _Sums:
    """Sums that are there, as a source for ``learn_from``."""

    def __init__(self, sums: list[Sum]) -> None:
        self._slots = [each for each in sums if each.kind == 0]
        self._rounds = [each for each in sums if each.kind == 1]
        self.wanted: Broadcast | None = None  # what is told before the first round that is not there

    def slot(self, number: int) -> Received:
        """Return what a slot of moments gave."""
        return _received(self._slots[number])

    def round(self, number: int, told: Broadcast) -> Received:
        """Return what a round of gradients gave."""
        if number >= len(self._rounds):
            self.wanted = told
            raise NoMoreRounds
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
        self._last: tuple[list[Sum], tuple[TrainedModel, Broadcast | None]] | None = None

    def tell(self, sums: list[Sum]) -> Broadcast | None:
        """Return what to broadcast before the next round of gradients."""
        return self._learn(sums)[1]

    def learned(self, sums: list[Sum]) -> TrainedModel:
        """Return the model that these sums give, with its scores."""
        return self._learn(sums)[0]

    def score(self, sums: list[Sum]) -> float | None:
        """Return the accuracy of that model on the test rows; None where there are no classes, or no rows."""
        scored = self.learned(sums).history
        return scored.final_accuracy if scored.test_accuracy else None

    def _learn(self, sums: list[Sum]) -> tuple[TrainedModel, Broadcast | None]:
        if self._last is None or self._last[0] != sums:  # told, scored and saved from the same sums
            self._last = list(sums), self._learn_from(sums)
        return self._last[1]

    def _learn_from(self, sums: list[Sum]) -> tuple[TrainedModel, Broadcast | None]:
        slots, source = sum(each.kind == 0 for each in sums), _Sums(sums)
        if not slots:
            raise ProtocolError("no slot of moments has been received, so that nothing is learned")
        scenario = replace(self._scenario, radio=replace(self._scenario.radio, slots=slots))
        return learn_from(scenario, self._dataset, source), source.wanted
