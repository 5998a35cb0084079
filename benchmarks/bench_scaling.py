"""What runs past one machine would cost, reckoned from the measured costs of one slot, one worker and one network."""

from __future__ import annotations

from dataclasses import dataclass

from bench_tables import CPUS, GPU, Results, Row, markdown, rounded, rows_by_name

SYMBOLS_PER_SECOND = 794_000  # the paper's rate, 794 in a slot of 1 ms
SLOTS_OF_THE_PAPER, WORKERS_OF_THE_PAPER = 100_000, 60_000
SCHEDULED = 64
STEPS_OF_A_NETWORK = 10 * -(-SLOTS_OF_THE_PAPER // 64)
LARGEST_BYTES_A_WORKER = 64


@dataclass(frozen=True)
class Costs:
    """What one machine takes; None where it was not measured there."""

    seconds_a_slot: float | None
    seconds_a_network: float | None  # 10 epochs of the image network on 100,000 mixtures


def costs_of(results: Results, machine: str) -> Costs:
    rows = rows_by_name(results.get(machine, {"rows": []}))

    def seconds(work: str) -> float | None:
        found: list[Row] = [row for (name, _), row in rows.items() if name == work and row.get("ours_seconds")]
        return float(found[0]["ours_seconds"]) if found else None

    if machine == GPU:
        slots = seconds("all slots of `paper-mnist`, one GPU")
        table = seconds("Table I, MNIST half (30 cells, 3 seeds), one GPU")
        return Costs(slots and slots / SLOTS_OF_THE_PAPER, table and table / 90)
    slots, step = seconds("all slots of `paper-mnist`"), seconds("a step of the image network")
    return Costs(slots and slots / SLOTS_OF_THE_PAPER, step and step * STEPS_OF_A_NETWORK)


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
            ]
        )
    return markdown(["machine", "one slot, 64 workers, 794 symbols", "one image network, 10 epochs"], lines)


@dataclass(frozen=True)
class Plan:
    """A number of cells with a server and workers each, and how often a worker sends."""

    name: str
    cells: int
    workers: int  # of a cell
    participations: float  # of a worker
    networks: bool  # whether each cell trains one; else a closed form takes no time beside the slots

    @property
    def slots(self) -> float:
        """Slots of a cell."""
        return self.workers * self.participations / SCHEDULED


USUAL_PARTICIPATIONS = SLOTS_OF_THE_PAPER * SCHEDULED / WORKERS_OF_THE_PAPER
PLANS = (
    Plan("`paper-mnist` as it is", 1, WORKERS_OF_THE_PAPER, USUAL_PARTICIPATIONS, True),
    Plan("one cell of 10^6 workers", 1, 10**6, USUAL_PARTICIPATIONS, True),
    Plan("one server, 10^9 workers, each sends once", 1, 10**9, 1.0, False),
    Plan("10^4 cells of 10^5 workers (10^9 in total)", 10**4, 10**5, USUAL_PARTICIPATIONS, True),
)


def plans(results: Results) -> str:
    """Return air time, memory and the hours of one machine for each plan; the hours divide by the machines."""
    each_worker = bytes_a_worker(results)
    lines = []
    for plan in PLANS:
        hours = []
        for machine in (*CPUS, GPU):
            cost = costs_of(results, machine)
            seconds = cost.seconds_a_slot and plan.cells * plan.slots * cost.seconds_a_slot
            if seconds is not None and plan.networks:
                network = cost.seconds_a_network
                training = network and plan.cells * network * plan.slots / SLOTS_OF_THE_PAPER
                seconds = training and seconds + training
            hours.append("not measured" if seconds is None else long_duration(seconds))
        lines.append(
            [
                plan.name,
                f"{rounded(plan.slots)}",
                long_duration(plan.slots * 794 / SYMBOLS_PER_SECOND),
                f"{rounded(plan.workers * each_worker / 1e9)} GB",
                *hours,
            ]
        )
    head = ["plan", "slots of a cell", "air time of a cell", "workers of a cell in memory", *CPUS, f"one {GPU}"]
    return markdown(head, lines)


def long_duration(seconds: float) -> str:
    for length, unit in ((86_400 * 365.25, "years"), (86_400, "days"), (3600, "h"), (60, "min")):
        if seconds >= 1.5 * length:
            return f"{rounded(seconds / length)} {unit}"
    return f"{rounded(seconds)} s"
