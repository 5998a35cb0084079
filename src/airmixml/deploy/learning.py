"""From sums to models: what the server broadcasts before a round of gradients, and what it has learned so far."""

from airmixml.data import DataSet
from airmixml.deploy.attempts import Sum
from airmixml.deploy.contract import Contract
from airmixml.edge.models import TrainedModel
from airmixml.edge.received import Received, learn_from
from airmixml.errors import ProtocolError
from airmixml.workers.payloads import Broadcast


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
        if self._last is None or self._last[0] != sums:  # told, scored and saved from the same sums
            self._last = list(sums), self._learn_from(sums)
        return self._last[1]

    def _learn_from(self, sums: list[Sum]) -> tuple[TrainedModel, Broadcast | None]:
        gradients = [kind.sends == "gradients" for kind in self._contract.kinds]
        slots = [_received(each) for each in sums if not gradients[each.kind]]
        rounds = [_received(each) for each in sums if gradients[each.kind]]
        if not slots and self._contract.plan.workers.sends != "gradients":  # which begin with a model of zeros
            raise ProtocolError("no slot of moments has been received, so that nothing is learned")
        return learn_from(self._contract.plan, self._dataset, slots, rounds)
