"""What the server broadcasts before a round of gradients."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from airmixml.arrays import Doubles, Singles
from airmixml.scenario.links import SOFTMAX, Link


@dataclass(frozen=True, kw_only=True, eq=False)
class Broadcast:
    """What the server sends to all workers before a round.

    Attributes:
        weights: W; features x outputs.
        biases: b; shape outputs.
        clip: C, the norm that gradients are shortened to.
        link: what scores stand for.
    """

    weights: Doubles
    biases: Doubles
    clip: float
    link: Link = SOFTMAX

    def errors(self, inputs: NDArray[np.floating], labels: Doubles | Singles) -> Doubles:
        """Return e of rows with these inputs (rows x features) and labels (rows x outputs); rows x outputs."""
        scores = (inputs @ self.weights.astype(inputs.dtype)).astype(np.float64) + self.biases
        return np.asarray(self.link.mean(scores) - self.link.truth(labels))
