"""Keys that say "auto": the choice that learns best from a table, as far as the rest of the scenario allows it.

docs/tables.md has what each is worth.
"""

from dataclasses import replace

from airmixml.doors import ADVERSARIES, ENCODERS
from airmixml.scenario.rules import AUTO
from airmixml.scenario.tables import Learner, Mixing, Privacy, Radio, Workers


def is_chosen(workers: Workers, learner: Learner) -> bool:
    """Whether no key is left to be chosen."""
    return AUTO not in (workers.centre, workers.label_code, learner.model)


def choose(
    workers: Workers, radio: Radio, mixing: Mixing, privacy: Privacy, learner: Learner
) -> tuple[Workers, Learner]:
    """Return both tables with a choice for every key that says "auto".

    The centre is refined over the air where that can be, else the middle of the bounds; classes are sent centred where
    the server can restore them; classes are learnt by discriminants and all else by least squares.
    """
    classes = workers.task == "classification"
    if workers.centre == AUTO:
        encoder = ENCODERS.load(workers.encoder)
        heard = mixing.power == "dp" and radio.fading == "none" and not ADVERSARIES.load(privacy.adversary).own_receiver
        public = "public" if encoder.bounds_norm and getattr(encoder, "scales_inputs", True) else "none"
        refined = public == "public" and heard and not workers.several_rows
        workers = replace(workers, centre="refined" if refined else public)
    if workers.label_code == AUTO:
        restored = workers.sends == "moments" and workers.constant > 0.0 and not workers.bits
        centred = classes and restored and not workers.several_rows
        workers = replace(workers, label_code="centred" if centred else "one-hot")
    if learner.model == AUTO:
        learner = replace(learner, model="lda" if classes else "ridge")
    return workers, learner
