"""How ``airmix plan`` shows what to send so that a closed-form learner is left with the least noise."""

from __future__ import annotations

import math
import shlex
from typing import TYPE_CHECKING, Final

from rich.markup import escape

from airmixml.cli.terminal import console
from airmixml.output.numbers import duration, joules
from airmixml.output.tables import terminal_table
from airmixml.scenario import Scenario

if TYPE_CHECKING:
    from airmixml.planning.recommend import LearningOption, Recommendation

# Above this, ten classes of digits were learnt with errors of 70 % and more (benchmarks/check_plan.py).
_CHANCE_DB: Final = -4.0
_ROWS: Final = (
    "sends",
    "label weight w",
    "|N_t|",
    "slots",
    "schedule",
    "alpha",
    "learning noise",
    "air time",
    "energy",
)


def print_recommendation(found: Recommendation | None, scenario: Scenario, command: str) -> None:
    """Print the scenario beside the best for learning, and the command that runs it.

    Args:
        found: what the plan recommends; None where nothing fits.
        scenario: what was planned.
        command: ``airmix run`` with what was given to the plan.
    """
    if found is None:
        console.print("no design that can learn fits into the time on the air: raise --max-air-seconds")
        return
    columns = ("", "this scenario", "[green]best for learning" if found.overrides else "best for learning")
    rows = list(zip(_ROWS, _cells(found.own), _cells(found.best), strict=True))
    console.print(terminal_table(columns, rows, title=f"At the same privacy, for {scenario.learner.model}", words=3))
    if found.overrides:
        gain = f"{abs(found.gain_db):.1f} dB {'less' if found.gain_db >= 0 else 'more'} learning noise"
        if found.gain_db < 0:
            gain = f"this scenario is on the air for longer than is allowed; within the limit, {gain}"
        if not math.isfinite(found.gain_db):
            gain = "the first signal"
        console.print(f"{gain} (the noise in the equation that the learner solves, relative to one sample) with:")
        changes = [word for override in found.overrides for word in ("--set", override)]
        console.print(f"{escape(command)} {escape(shlex.join(changes))}", soft_wrap=True)
    else:
        console.print("no other design leaves the learner with less noise")
    if found.best.learning_noise_db > _CHANCE_DB:
        console.print("at this target even the best design is nearly all noise: expect little better than guessing")
    if found.note:
        console.print(escape(found.note), soft_wrap=True)


def _cells(option: LearningOption) -> list[str]:
    sending = option.sending
    shares = {"equalmix": "equal shares", "nonmix": "one worker's share"}.get(sending.policy, f"{sending.alpha}")
    return [
        sending.sends,
        f"{sending.label_weight:g}",
        f"{sending.scheduled:,}",
        f"{sending.slots:,}",
        sending.schedule,
        shares,
        f"{option.learning_noise_db:.1f} dB" if math.isfinite(option.learning_noise_db) else "all",
        duration(option.air_seconds),
        joules(option.energy_joules),
    ]
