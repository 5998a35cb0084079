"""What follows from the tables: the choice for keys that say "auto", and what scores of the learner stand for.

A choice is that which learns best from a table, as far as the rest of the scenario allows it; docs/tables.md has what
each is worth. The link from scores to what is expected of labels (``Scenario.score_link``) is stored with the model.
Rounds of gradients descend the loss that belongs to it, whose gradient is x (mean(s) - l)^T for all three.
"""

import math
from dataclasses import replace
from typing import Final

import numpy as np

from airmixml.arrays import Doubles, Singles
from airmixml.registries import ADVERSARIES, ENCODERS, NOISES
from airmixml.scenario.consistency import Tables, rounds_refusal
from airmixml.scenario.rules import AUTO
from airmixml.scenario.tables import Learner, Radio, Workers

_FEW_INPUTS: Final = 8
_NORM_OF_FEW: Final = 0.5
_ROUNDS: Final = 20
_FEWEST_ROWS: Final = 200  # of fewer, one slot learns as much or more (wine, iris)
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


def is_chosen(workers: Workers, learner: Learner) -> bool:
    """Whether no key is left to be chosen."""
    return AUTO not in (workers.centre, workers.norm, workers.label_code, learner.model, learner.rounds)


def why_no_rounds(workers: Workers, radio: Radio, learner: Learner, *, rows: int) -> str:
    """Return why no rounds follow unless the scenario asks for them; empty where some do. 0 rows: not known."""
    if workers.sends != "moments":
        return f'workers.sends = "{workers.sends}"'
    unless = "(learner.rounds above 0 would add some)"
    if 0 < rows < _FEWEST_ROWS:
        return f"of fewer than {_FEWEST_ROWS} workers one slot learns as much or more {unless}"
    if refusal := rounds_refusal(workers, radio):
        return refusal
    return f'learner.model = "lda" is solved from one slot {unless}' if learner.model == "lda" else ""


def clipped_share(inputs: int) -> float:
    """Return what rows of so many inputs (0: not known) are clipped at, in units of the norm that others have."""
    return _NORM_OF_FEW if 0 < inputs < _FEW_INPUTS else 1.0


def choose(tables: Tables, *, inputs: int = 0, rows: int = 0) -> Tables:
    """Return the tables with a choice for every key that says "auto", for that many inputs and rows (0: not known).

    The centre is refined over the air where that can be, else the middle of the bounds. Rows of many inputs are brought
    to one norm; of few inputs too much would be lost by that. Classes are sent centred where the server can restore
    them; they are learnt by discriminants, and all else, and what rounds start from, by least squares.
    """
    workers, radio, learner = tables.workers, tables.radio, tables.learner
    if workers.norm == AUTO:
        share = clipped_share(inputs)
        workers = replace(workers, norm="unit" if share == 1.0 else "clip", clip_norm=workers.clip_norm * share)
    classes = workers.task == "classification"
    if workers.centre == AUTO:
        encoder = ENCODERS.load(workers.encoder)
        privacy, heard = tables.privacy, tables.mixing.power == "dp" and radio.fading == "none"
        heard = heard and tables.air.is_ideal
        heard = heard and not NOISES.load(privacy.noise).brought
        heard = heard and not ADVERSARIES.load(privacy.adversary).own_receiver
        public = "public" if encoder.bounds_norm and getattr(encoder, "scales_inputs", True) else "none"
        refined = public == "public" and heard and not workers.several_rows
        workers = replace(workers, centre="refined" if refined else public)
    if workers.label_code == AUTO:
        restored = workers.sends == "moments" and workers.constant > 0.0 and not workers.bits
        centred = classes and restored and not workers.several_rows
        workers = replace(workers, label_code="centred" if centred else "one-hot")
    if str(learner.rounds) == AUTO:
        learner = replace(learner, rounds=0 if why_no_rounds(workers, radio, learner, rows=rows) else _ROUNDS)
    if learner.model == AUTO:
        learner = replace(learner, model="lda" if classes and not learner.rounds else "ridge")
    return replace(tables, workers=workers, learner=learner)
