"""A method of ``airmix compare``: the scenario itself, with every symbol rounded to one byte."""

from dataclasses import replace

from airmixml.compare import Method, Outcome, Work
from airmixml.compare.ours import run_scenario


class OneByte(Method):
    """Digital symbols instead of analog ones."""

    about = "the scenario with symbols of 8 bits"

    def run(self, work: Work) -> Outcome:
        """Run it on the data and workers of the comparison."""
        scenario = work.scenario
        return run_scenario(work, replace(scenario, workers=replace(scenario.workers, bits=8)))
