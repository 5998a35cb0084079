"""What scores of a learner stand for: the link from them to what is expected of labels, which is stored with a model.

Rounds of gradients descend the loss that belongs to it, whose gradient is x (mean(s) - l)^T for all three.
"""

import math
from typing import Final

import numpy as np

from airmixml.arrays import Doubles, Singles

NEVER_CERTAIN: Final = 1e-6
"""No probability that least squares or a logistic gives is nearer to 0 or 1."""


class ScoreLink:
    """Scores are what is expected of labels as they are sent: least squares."""

    name: str = "identity"  #: as stored with a model
    logits: bool = False  #: whether scores are of no unit: rounds then begin with sharper ones, and go a given way
    rounds_share: float = 0.5  #: of the privacy loss, that of rounds where the scenario does not say

    def __reduce__(self) -> str:  # a copy, here or in another process, is the same link
        return self.name.upper()

    def mean(self, scores: Doubles) -> Doubles:
        """Return what is expected; samples x outputs."""
        return scores

    def truth(self, labels: Doubles | Singles) -> Doubles | Singles:
        """Return labels, as they are sent, as the mean would have them; samples x outputs."""
        return labels

    def length(self, outputs: int) -> float:
        """Return how long an error is, in units of the error of one class."""
        return 1.0


class Softmax(ScoreLink):
    """Softmax of the scores is the probability of each class; labels are one-hot vectors."""

    name, logits, rounds_share = "softmax", True, 0.9

    def mean(self, scores: Doubles) -> Doubles:
        powers = np.exp(scores - scores.max(axis=1, keepdims=True))
        return np.asarray(powers / powers.sum(axis=1, keepdims=True))


class Logistic(ScoreLink):
    """The logistic function of a score is the probability that its label holds; labels are sent as signs."""

    name, logits, rounds_share = "logistic", True, 0.9

    def mean(self, scores: Doubles) -> Doubles:
        return np.asarray(0.5 + 0.5 * np.tanh(0.5 * scores))  # exp of a large score would overflow

    def truth(self, labels: Doubles | Singles) -> Doubles | Singles:
        """Return 1 for a label that holds, and 0 for one that does not."""
        return np.asarray(0.5 + 0.5 * np.sign(labels))

    def length(self, outputs: int) -> float:
        return math.sqrt(outputs)


IDENTITY: Final = ScoreLink()
SOFTMAX: Final = Softmax()
LOGISTIC: Final = Logistic()
LINKS: Final = {link.name: link for link in (IDENTITY, SOFTMAX, LOGISTIC)}
"""By name."""
