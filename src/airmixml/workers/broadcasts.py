"""What the server broadcasts before a round of gradients."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from airmixml.arrays import Doubles, Singles
from airmixml.scenario.automatic import SOFTMAX, ScoreLink


@dataclass(frozen=True, kw_only=True, eq=False)
class Broadcast:
    """What the server sends to all workers before a round.

    In an audit several runs are made at once: weights and biases have them along a first axis, and rows of the first
    come first, as many of each.
    """

    weights: Doubles  #: W; features x outputs
    biases: Doubles  #: b; shape outputs
    clip: float  #: C, the norm that gradients are shortened to
    link: ScoreLink = SOFTMAX  #: what scores stand for

    def errors(self, inputs: NDArray[np.floating], labels: Doubles | Singles) -> Doubles:
        """Return e of rows with these inputs (rows x features) and labels (rows x outputs); rows x outputs."""
        models = self.weights.reshape(-1, *self.weights.shape[-2:]).astype(inputs.dtype)
        scores = (inputs.reshape(len(models), -1, inputs.shape[1]) @ models).astype(np.float64)
        scores = (scores + self.biases.reshape(len(models), 1, -1)).reshape(len(inputs), -1)
        return np.asarray(self.link.mean(scores) - self.link.truth(labels))
