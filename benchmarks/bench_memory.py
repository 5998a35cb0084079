"""Memory of a streamed simulation: flat in the slots, and few bytes a worker beside the data."""

from __future__ import annotations

import one_run
from bench_kit import Row, row


def rows(_device: str, quick: bool) -> list[Row]:
    slots = (1_000, 10_000) if quick else (10_000, 100_000, 1_000_000)
    workers = (10_000, 1_000_000) if quick else (10_000, 10_000_000)
    by_slots = [one_run.measured(slots=count)["peak_megabytes"] for count in slots]
    few, many = (one_run.measured(workers=count)["peak_megabytes"] for count in workers)
    return [
        row(
            "peak memory of the most slots",
            f"of the fewest (T from {slots[0]:,} to {slots[-1]:,}, streamed)",
            measured=max(by_slots) / by_slots[0],
            unit="times",
            target={"most": 1.2},  # the fewest slots are too few to have all blocks under way
            note=", ".join(f"{each:,.0f} MB" for each in by_slots),
        ),
        row(
            "bytes a worker beside the data",
            f"N from {workers[0]:,} to {workers[-1]:,}",
            measured=(many - few) * 2**20 / (workers[1] - workers[0]),
            unit="bytes",
            target={"most": 64},
            note=f"{few:,.0f} and {many:,.0f} MB",
        ),
    ]
