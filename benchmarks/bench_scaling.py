"""What runs past one machine would cost, reckoned from the measured costs of one slot, one worker and one network."""

from __future__ import annotations

from dataclasses import dataclass

from bench_tables import CPUS, GPU, Results, Row, markdown, rounded, rows_by_name

SYMBOLS_PER_SECOND = 794_000  # the paper's rate, 794 in a slot of 1 ms
SYMBOLS_OF_A_SAMPLE, SYMBOLS_OF_MOMENTS = 794, 535_040
SLOTS_OF_THE_PAPER, WORKERS_OF_THE_PAPER = 100_000, 60_000
SCHEDULED = 64
STEPS_OF_A_NETWORK = 10 * -(-SLOTS_OF_THE_PAPER // 64)
LARGEST_BYTES_A_WORKER = 64


@dataclass(frozen=True)
class Costs:
    """What one machine takes; None where it was not measured there."""

    seconds_a_slot: float | None
    seconds_a_network: float | None  # 10 epochs of the image network on 100,000 mixtures
    seconds_a_sum: float | None  # all of private-mnist: 60,000 workers send their moments in one slot


def costs_of(results: Results, machine: str) -> Costs:
    rows = rows_by_name(results.get(machine, {"rows": []}))

    def seconds(work: str) -> float | None:
        found: list[Row] = [row for (name, _), row in rows.items() if name == work and row.get("ours_seconds")]
        return float(found[0]["ours_seconds"]) if found else None

    if machine == GPU:
        slots = seconds("all slots of `paper-mnist`, one GPU")
        table = seconds("Table I, MNIST half (30 cells, 3 seeds), one GPU")
        one_sum = seconds("`private-mnist` end to end, one GPU")
        return Costs(slots and slots / SLOTS_OF_THE_PAPER, table and table / 90, one_sum)
    slots, step = seconds("all slots of `paper-mnist`"), seconds("a step of the image network")
    one_sum = seconds("`private-mnist` end to end")
    return Costs(slots and slots / SLOTS_OF_THE_PAPER, step and step * STEPS_OF_A_NETWORK, one_sum)


def bytes_a_worker(results: Results) -> float:
    """Return the most that any machine measured, or what the package promises."""
    found = [
        row["measured"]
        for result in results.values()
        for row in result["rows"]
        if row["work"] == "bytes a worker beside the data" and "measured" in row
    ]
    return float(max(found, default=LARGEST_BYTES_A_WORKER))


def unit_costs(results: Results) -> str:
    """Return what one slot and one network take on each machine."""
    lines = []
    for machine in (*CPUS, GPU):
        cost = costs_of(results, machine)
        lines.append(
            [
                machine,
                "not measured" if cost.seconds_a_slot is None else f"{rounded(1e6 * cost.seconds_a_slot)} µs",
                "not measured" if cost.seconds_a_network is None else f"{rounded(cost.seconds_a_network)} s",
                "not measured" if cost.seconds_a_sum is None else f"{rounded(cost.seconds_a_sum)} s",
            ]
        )
    head = [
        "machine",
        "one slot, 64 workers, 794 symbols",
        "one image network, 10 epochs (of a stack on a GPU)",
        "`private-mnist`",
    ]
    return markdown(head, lines)


@dataclass(frozen=True)
class Plan:
    """A number of cells with a server and workers each, and how often a worker sends a sample.

    In each cell a network may learn from the mixtures. Or everybody sends moments in one slot (no participations).
    """

    name: str
    cells: int
    workers: int  # of a cell
    participations: float  # of a worker
    networks: bool = True

    @property
    def slots(self) -> float:
        """Slots of a cell."""
        return self.workers * self.participations / SCHEDULED or 1.0

    @property
    def air_seconds(self) -> float:
        """How long a cell is on the air."""
        symbols = SYMBOLS_OF_A_SAMPLE if self.participations else SYMBOLS_OF_MOMENTS
        return self.slots * symbols / SYMBOLS_PER_SECOND

    def seconds(self, cost: Costs) -> float | None:
        """Return the time of one machine for all cells; None where a part of it was not measured."""
        if not self.participations:
            return cost.seconds_a_sum and self.cells * cost.seconds_a_sum * self.workers / WORKERS_OF_THE_PAPER
        if cost.seconds_a_slot is None or (self.networks and cost.seconds_a_network is None):
            return None
        training = (cost.seconds_a_network or 0.0) / SLOTS_OF_THE_PAPER if self.networks else 0.0
        return self.cells * self.slots * (cost.seconds_a_slot + training)


USUAL_PARTICIPATIONS = SLOTS_OF_THE_PAPER * SCHEDULED / WORKERS_OF_THE_PAPER
PLANS = (
    Plan("`paper-mnist` as it is", 1, WORKERS_OF_THE_PAPER, USUAL_PARTICIPATIONS),
    Plan("one cell of 10^6 workers", 1, 10**6, USUAL_PARTICIPATIONS),
    Plan("one server, 10^9 workers, each sends once, no training", 1, 10**9, 1.0, networks=False),
    Plan("10^4 cells of 10^5 workers (10^9 in total)", 10**4, 10**5, USUAL_PARTICIPATIONS),
    Plan("the same, moments in one slot as in `private-mnist`", 10**4, 10**5, 0.0),
    Plan("one server, 10^9 workers, moments in one slot", 1, 10**9, 0.0),
)


def plans(results: Results) -> str:
    """Return air time, memory and the hours of one machine for each plan; the hours divide by the machines."""
    each_worker = bytes_a_worker(results)
    lines = []
    for plan in PLANS:
        taken = [plan.seconds(costs_of(results, machine)) for machine in (*CPUS, GPU)]
        hours = ["not measured" if seconds is None else long_duration(seconds) for seconds in taken]
        lines.append(
            [
                plan.name,
                f"{rounded(plan.slots)}",
                long_duration(plan.air_seconds),
                size(plan.workers * each_worker),
                *hours,
            ]
        )
    head = ["plan", "slots of a cell", "air time of a cell", "workers of a cell in memory", *CPUS, f"one {GPU}"]
    return markdown(head, lines)


def size(count: float) -> str:
    return f"{rounded(count / 1e9)} GB" if count >= 1e9 else f"{rounded(count / 1e6)} MB"


def long_duration(seconds: float) -> str:
    for length, unit in ((86_400 * 365.25, "years"), (86_400, "days"), (3600, "h"), (60, "min")):
        if seconds >= 1.5 * length:
            return f"{rounded(seconds / length)} {unit}"
    return f"{rounded(seconds)} s"
