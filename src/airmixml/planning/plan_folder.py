"""The folder of a plan: everything in JSON, tables, picture and the scenario that was planned."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from airmixml.planning.pictures import draw_plan
from airmixml.planning.plan import Plan
from airmixml.planning.plan_page import Part, plan_markdown
from airmixml.scenario import Scenario
from airmixml.storage.files import write_text
from airmixml.storage.run_folder import METRICS, SCENARIO, Finish, claim_folder

_PLAN: Final = "plan"


def write_plan(
    plan: Plan,
    scenario: Scenario,
    parts: Sequence[Part],
    out: Path,
    *,
    seconds: float,
    picture: bool = True,
    force: bool = False,
    finish: Finish | None = None,
) -> Path:
    """Write a plan into a new folder, whole or not at all, and return the folder.

    ``force`` replaces an earlier folder of airmix; no ``picture`` is drawn of a plan without other designs. ``finish``
    adds files to the complete folder before it gets its name.
    """
    with claim_folder(out, {"scenario": scenario.to_json(), _PLAN: True}, force=force) as folder:
        write_text(folder.work / f"{_PLAN}.md", plan_markdown(plan, parts))
        if picture and (plan.options or plan.recommended):
            draw_plan(plan, scenario, folder.work / f"{_PLAN}.png")
        write_text(folder.work / SCENARIO, scenario.to_toml())
        found = {**plan.to_dict(), "seconds": seconds, "run_dir": str(folder.final)}
        write_text(folder.work / METRICS, json.dumps(found, indent=2, allow_nan=False) + "\n")
        return folder.publish(replace=force, finish=finish)
