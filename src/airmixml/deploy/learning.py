"""From sums to models: what the server broadcasts before a round of gradients, and what it has learned so far."""

from dataclasses import replace

from airmixml.data import DataSet
from airmixml.deploy.attempts import Sum
from airmixml.deploy.contract import Contract
from airmixml.edge.models import TrainedModel
from airmixml.edge.sources import NoMoreRounds, Received, learn_from
from airmixml.errors import ProtocolError
from airmixml.workers.payloads import Broadcast


class _Sums:
    """Sums that are there, as a source for ``learn_from``."""

    def __init__(self, contract: Contract, sums: list[Sum]) -> None:
        gradients = [kind.sends == "gradients" for kind in contract.kinds]
        self.slots = [each for each in sums if not gradients[each.kind]]
        self._rounds = [each for each in sums if gradients[each.kind]]
        self.wanted: Broadcast | None = None  # what is told before the first round that is not there

    def slot(self, number: int) -> Received:
        """Return what a slot of moments gave."""
        return _received(self.slots[number])

    def round(self, number: int, told: Broadcast) -> Received:
        """Return what a round of gradients gave."""
        if number >= len(self._rounds):
            self.wanted = told
            raise NoMoreRounds
        return _received(self._rounds[number])


def _received(found: Sum) -> Received:
    return Received(mean=found.mean, noise_variance=found.variance, present=len(found.present))


class Teacher:
    """Learns from the sums of a run; the same sums always give the same models. They are scored on test rows."""

    def __init__(self, contract: Contract, dataset: DataSet) -> None:
        self._contract, self._dataset = contract, dataset
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
        if self._last is not None and self._last[0] == sums:  # told, scored and saved from the same sums
            return self._last[1]
        source, scenario = _Sums(self._contract, sums), self._contract.plan
        if scenario.workers.sends != "gradients":  # which begin with a model of zeros
            if not source.slots:
                raise ProtocolError("no slot of moments has been received, so that nothing is learned")
            scenario = replace(scenario, radio=replace(scenario.radio, slots=len(source.slots)))
        found = learn_from(scenario, self._dataset, source), source.wanted
        self._last = list(sums), found
        return found
