"""The server's attacks: reconstruct every worker's sample, then see who can be recognised."""

from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from airmixml.attacks.recognition import ServerFindings, recognise
from airmixml.attacks.reconstruction import reconstruct, reconstruction_refusal
from airmixml.attacks.target import Outcome, Target
from airmixml.scenario import Scenario


@dataclass(frozen=True)
class ServerAttack:
    """One method of ``reconstruct``."""

    method: str
    about: str
    adversary: ClassVar[str] = "server"
    findings: ClassVar[type[ServerFindings]] = ServerFindings

    def refusal(self, scenario: Scenario) -> str:
        """Return why the method does not fit what the workers send; empty if it does."""
        return reconstruction_refusal(self.method, scenario.workers)

    def run(self, target: Target) -> Outcome:
        """Reconstruct all workers; examples are what was recovered of the first worker that holds each of them."""
        view, reader = target.view, target.reader
        found = reconstruct(view, self.method, progress=target.context.progress)
        findings, seen = recognise(found, target.held, view.held_index, target.decoder, reader)
        order = np.argsort(view.held_index, kind="stable")
        holders = order[np.searchsorted(view.held_index, target.examples, sorter=order)]
        arrays = {
            "originals": target.held.train_inputs[target.examples],
            "examples": seen.pop("samples")[holders],
            **{name: each.astype(np.float32) if each.dtype == np.float64 else each for name, each in seen.items()},
        }
        return Outcome(findings=findings, arrays=arrays)


LEAST_SQUARES: Final = ServerAttack("least-squares", "solve for all samples, each slot weighted by its noise")
NON_NEGATIVE: Final = ServerAttack("non-negative", "the same within the range of what workers send")
PRIOR: Final = ServerAttack("prior", "the same with mean and covariance of public samples (Wiener filter)")
