"""An attack: the strongest label symbol of a slot is taken for the class of its loudest worker."""

import numpy as np

from airmixml.attacks import Attack, Outcome, PlainFindings, Target
from airmixml.scenario import Scenario


class LoudestLabel(Attack):
    """Needs no linear algebra: the server knows who was loudest."""

    about = "the strongest label symbol of a slot is the class of its loudest worker"
    adversary = "server"
    findings = PlainFindings

    def refusal(self, scenario: Scenario) -> str:
        """Moments have no label symbols."""
        return "no label is sent by itself" if scenario.workers.sends == "moments" else ""

    def run(self, target: Target) -> Outcome:
        """Name a class for each slot, and compare with the truth."""
        draws = target.view.draws
        workers = np.concatenate([each.scheduled_workers for each in draws])
        seats = np.concatenate([each.ratios.argmax(axis=1) for each in draws])
        loudest = workers[np.arange(len(seats)), seats]
        truth = target.held.train_labels[target.view.held_index[loudest]]
        right = int(np.sum(target.view.labels.argmax(dim=1).cpu().numpy() == truth))
        guessing = np.bincount(truth).max() / len(truth)
        return Outcome(
            findings=PlainFindings(
                share=max(0.0, (right / len(truth) - guessing) / (1.0 - guessing)),
                words=f"names the class of the loudest worker in {right:,} of {len(truth):,} slots",
            )
        )
