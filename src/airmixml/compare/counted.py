"""The rows of a comparison that a ledger counts: those that run a scenario of this package on the workers' data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from airmixml.errors import AirMixError, LedgerError, ScenarioError
from airmixml.runs.spending import Spending, joined, plan_spending
from airmixml.scenario import RunContext, Scenario

Made = Callable[[Scenario], Scenario | None]
"""What makes the scenario that a row runs of the one that is compared; None where it runs none of this package."""


@dataclass(frozen=True, kw_only=True, eq=False)
class CountedRows:
    """What the rows spend, and which scenario each of them runs with each seed."""

    spending: Spending
    scenarios: Mapping[tuple[str, int], Scenario]

    @classmethod
    def plan(
        cls,
        rows: Mapping[str, tuple[Made, Scenario]],
        seeds: Sequence[int],
        failed: MutableMapping[str, str] | None,
        ledger: Path | str,
        context: RunContext,
    ) -> Self:
        """Plan all rows; ``failed`` takes those that cannot be run or counted, without it they are refused."""
        parts: list[Spending] = []
        scenarios: dict[tuple[str, int], Scenario] = {}
        for name, (made_of, compared) in rows.items():
            try:
                made = {seed: made_of(compared.with_seed(seed)) for seed in seeds}
                own = {seed: each for seed, each in made.items() if each is not None}
                if not own:
                    continue
                about = {each: f"airmix compare {each.name}, {name}, seed {seed}" for seed, each in own.items()}
                parts.append(
                    plan_spending(about, ledger, study=True, data_dir=context.data_dir, progress=context.progress)
                )
            except LedgerError:
                raise
            except AirMixError as problem:
                if failed is None:
                    raise
                failed[name] = str(problem)
                continue
            scenarios |= {(name, seed): each for seed, each in own.items()}
        if not parts:
            raise ScenarioError(
                "--ledger: counts runs of airmix and its variants, and none of these methods is one; leave it out"
            )
        return cls(spending=joined(parts), scenarios=scenarios)

    def reserve(self, is_finished: Callable[[str, int], bool]) -> None:
        """Reserve all rows and seeds that are not finished, together or none of them."""
        finished: dict[Scenario, bool] = {}
        for (name, seed), scenario in self.scenarios.items():
            finished[scenario] = finished.get(scenario, True) and is_finished(name, seed)
        self.spending.reserve_unfinished(finished)

    def settle(self, name: str, seed: int) -> None:
        """Count a finished row as spent in full; one that is not counted costs nothing."""
        if (name, seed) in self.scenarios:
            self.spending.settle_in_full(self.scenarios[name, seed])
