"""How ``airmix plan`` shows the way to spend the power that leaves a learner in closed form with the least noise."""

from __future__ import annotations

import math
import shlex
from typing import TYPE_CHECKING, Final

from rich.markup import escape
from rich.table import Table

from airmixml.cli.terminal import console
from airmixml.scenario import Scenario
from airmixml.wording import duration, joules

if TYPE_CHECKING:
    from airmixml.planning.recommend import LearningOption, Recommendation

# Above this, ten classes of digits were learnt with errors of 70 % and more (benchmarks/check_plan.py).
_CHANCE_DB: Final = -4.0
_ROWS: Final = ("sends", "label weight w", "|N_t|", "slots", "schedule", "alpha", "learning noise", "on air", "energy")


def print_recommendation(found: Recommendation | None, scenario: Scenario, command: str) -> None:
    """Print the scenario beside the best for learning, and the command that runs it.

    Args:
        found: what the plan recommends; None where nothing does.
        scenario: what was planned.
        command: ``airmix run`` with what was given to the plan.
    """
    if found is None:
        console.print("no design that can learn fits into the time on air: raise --max-air-seconds")
        return
    table = Table(title=f"At the same privacy, for {scenario.learner.model}", title_justify="left", title_style="bold")
    table.add_column("", style="cyan", no_wrap=True)
    table.add_column("this scenario")
    table.add_column("best for learning", style="green" if found.overrides else None)
    for name, own, best in zip(_ROWS, _cells(found.own), _cells(found.best), strict=True):
        table.add_row(name, own, best)
    console.print(table)
    if found.overrides:
        gain = f"{abs(found.gain_db):.1f} dB {'less' if found.gain_db >= 0 else 'more'} learning noise"
        if found.gain_db < 0:
            gain = f"this scenario takes longer on the air than is allowed; within that, {gain}"
        if not math.isfinite(found.gain_db):
            gain = "the first signal"
        console.print(f"{gain} (what is left in the equation that the learner solves, over one sample) with:")
        changes = [word for override in found.overrides for word in ("--set", override)]
        console.print(f"{escape(command)} {escape(shlex.join(changes))}", soft_wrap=True)
    else:
        console.print("no other way to spend the power leaves the learner with less noise")
    if found.best.learning_noise_db > _CHANCE_DB:
        console.print("at this target even that is nearly all noise: expect little better than guessing")
    if found.note:
        console.print(escape(found.note), soft_wrap=True)


def _cells(option: LearningOption) -> list[str]:
    spending = option.spending
    shares = {"equalmix": "equal shares", "nonmix": "one worker's share"}.get(spending.policy, f"{spending.alpha}")
    return [
        spending.sends,
        f"{spending.label_weight:g}",
        f"{spending.scheduled:,}",
        f"{spending.slots:,}",
        spending.schedule,
        shares,
        f"{option.learning_noise_db:.1f} dB" if math.isfinite(option.learning_noise_db) else "all",
        duration(option.air_seconds),
        joules(option.energy_joules),
    ]
