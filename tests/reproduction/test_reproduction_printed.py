"""What the paper prints, typed out a second time, against the data files and the cells made of them."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from airmixml import Scenario, ScenarioError
from airmixml.messages import power_of_ten
from airmixml.reproduction import Request
from airmixml.reproduction.paper_cells import Cell, fig3_cells, fig4_cells, load_printed, table_cells
from airmixml.reproduction.verdicts import draw_mixing_ratios

HALVES = [(table, dataset) for table in ("table1", "table2") for dataset in ("iris", "mnist")]

# Columns (|N_t|, alpha) of both tables, then their rows: epsilon, six values, those in bold with an asterisk.
COLUMNS = {
    "iris": [(4, 1.0), (4, 10.0), (4, 1e5), (8, 1.0), (8, 10.0), (8, 1e5)],
    "mnist": [(64, 1e2), (64, 1e3), (64, 1e7), (128, 1e2), (128, 1e3), (128, 1e7)],
}
PRINT = {
    ("table1", "iris"): """
        5     74.0    70.4   87.6*   68.0    71.6   92.0*
        10    71.2    82.0   93.6*   71.6    81.5   90.8*
        1e2   83.6    83.6   92.7*   78.3    88.7   90.4*
        1e4   95.1*   76.8   80.0    91.1*   84.4   76.0
        max   100.0*  95.5   91.5    98.7*   91.9   89.5
    """,
    ("table1", "mnist"): """
        10    11.3    11.3   11.3    11.3    11.3   11.3
        1e2   11.3    11.3   58.5*   11.3    11.3   68.7*
        1e5   11.3    64.1   76.4*   12.6    48.2   80.6*
        1e8   90.2*   88.0   89.9    88.2*   88.0   87.3
        max   90.25*  89.6   90.21   87.9    88.4*  87.3
    """,
    # In microjoules, but for the rows of maximum power.
    ("table2", "iris"): """
        5     0.0912* 0.137  0.291   0.0615* 0.105  0.375
        10    0.152*  0.230  0.487   0.125*  0.215  0.765
        1e2   0.220*  0.333  0.705   0.196*  0.338  1.201
        1e4   2.61*   3.94   8.35    2.70*   4.64   16.4
        max   0.246   0.476  0.348   0.257   0.411  0.817
    """,
    ("table2", "mnist"): """
        10    0.295*  0.547  0.775   0.288*  0.687  1.16
        1e2   0.419*  0.777  1.09    0.448*  1.06   1.81
        1e5   1.04*   1.93   2.73    1.25*   2.98   5.07
        1e8   363*    673    952     469*    1119   1902
        max   319     460    498     428     790    950
    """,
}
LABELS = {"5": "epsilon = 5", "10": "epsilon = 10", "max": "max. power"} | {
    f"1e{exponent}": f"epsilon = 10^{exponent}" for exponent in (2, 4, 5, 8)
}
ALPHA_LABELS = {1.0: "1", 10.0: "10", 1e2: "10^2", 1e3: "10^3", 1e5: "10^5", 1e7: "10^7"}


def lines(table: str, dataset: str) -> list[tuple[str, list[float], list[int]]]:
    """Return each row: its epsilon, its values, and its columns in bold, counted from 1."""
    rows = [line.split() for line in PRINT[table, dataset].strip().splitlines()]
    return [
        (
            epsilon,
            [float(value.rstrip("*")) for value in values],
            [number for number, value in enumerate(values, 1) if value.endswith("*")],
        )
        for epsilon, *values in rows
    ]


def flat(scenario: Scenario) -> dict[str, Any]:
    plain = scenario.to_dict()
    return {
        f"{section}.{name}" if name else section: value
        for section, content in plain.items()
        for name, value in (content.items() if isinstance(content, dict) else [("", content)])
    }


def changes(scenario: Scenario, base: Scenario) -> dict[str, Any]:
    """Return the settings in which a scenario is not its base."""
    before = flat(base)
    return {name: value for name, value in flat(scenario).items() if value != before[name]}


def preset(dataset: str) -> Scenario:
    return Scenario.preset(f"paper-{dataset}")


def cells_of(table: str, dataset: str) -> tuple[list[Cell], list[Cell]]:
    """Return the cells as printed, and those read otherwise."""
    cells = table_cells(table, dataset, preset(dataset))
    return [cell for cell in cells if not cell.reading], [cell for cell in cells if cell.reading]


def stated_settings(epsilon: str) -> dict[str, Any]:
    return {"mixing.power": "max"} if epsilon == "max" else {"mixing.power": "dp", "privacy.epsilon": float(epsilon)}


# --- The data files ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("table", "dataset"), HALVES)
def test_the_data_files_hold_what_the_paper_prints(table: str, dataset: str) -> None:
    half = load_printed(table)[dataset]
    assert list(zip(half["scheduled"], half["alpha"], strict=True)) == COLUMNS[dataset]
    assert len(half["row"]) == 5
    for row, (epsilon, values, bold) in zip(half["row"], lines(table, dataset), strict=True):
        assert row["printed"] == values
        assert row["best"] == bold
        if epsilon == "max":
            assert (row["power"], "epsilon" in row) == ("max", False)
        else:
            assert (row["epsilon"], "power" in row) == (float(epsilon), False)
        if table == "table2":
            assert row["unit_joules"] == (1.0 if epsilon == "max" else 1e-6)


@pytest.mark.parametrize("table", ["table1", "table2"])
def test_the_data_files_hold_nothing_else(table: str) -> None:
    content = load_printed(table)
    halves = {name for name, value in content.items() if isinstance(value, dict)}
    assert halves == {"iris", "mnist"}
    assert sum(len(row["printed"]) for half in halves for row in content[half]["row"]) == 60


# --- The tables as cells ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("table", "dataset"), HALVES)
def test_each_entry_is_one_cell_of_its_row_and_column(table: str, dataset: str) -> None:
    stated, _ = cells_of(table, dataset)
    assert len(stated) == len({cell.place for cell in stated}) == 30
    base = preset(dataset)
    entries = iter(stated)
    for epsilon, values, bold in lines(table, dataset):
        for number, (value, (scheduled, alpha)) in enumerate(zip(values, COLUMNS[dataset], strict=True), 1):
            cell = next(entries)
            assert (cell.target, cell.dataset, cell.row) == (table, dataset, LABELS[epsilon])
            assert cell.column == f"{scheduled} workers, alpha = {ALPHA_LABELS[alpha]}"
            unit = 1e-6 if table == "table2" and epsilon != "max" else 1.0
            assert cell.printed == pytest.approx(value * unit, rel=1e-12)
            assert cell.stands_out == (number in bold)
            assert cell.quantity == ("accuracy" if table == "table1" else "energy")
            assert cell.kind.name == ("training" if table == "table1" else "energy")
            settings = {"radio.scheduled": scheduled, "mixing.alpha": alpha, **stated_settings(epsilon)}
            assert flat(cell.scenario) == flat(base) | settings


@pytest.mark.parametrize(("table", "dataset"), HALVES)
def test_the_tables_are_run_as_section_four_says(table: str, dataset: str) -> None:
    for cell in table_cells(table, dataset, preset(dataset)):
        scenario = cell.scenario
        assert (scenario.privacy.delta, scenario.radio.path_loss_exponent, scenario.radio.fading) == (0.01, 2.0, "none")
        assert (scenario.mixing.policy, scenario.mixing.assignment) == ("dirmix", "random")
        expected = {"iris": (2000, 1000, 500, 32), "mnist": (60_000, 100_000, 10, 64)}[dataset]
        learner = scenario.learner
        assert (scenario.workers.count, scenario.radio.slots, learner.epochs, learner.batch_size) == expected


# --- Other readings ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("table", "dataset", "count"), [(*half, count) for half, count in zip(HALVES, (6, 30, 8, 30), strict=True)]
)
def test_other_readings_come_last_and_keep_place_and_print(table: str, dataset: str, count: int) -> None:
    stated, reread = cells_of(table, dataset)
    assert len(reread) == count
    assert table_cells(table, dataset, preset(dataset)) == stated + reread
    by_place = {cell.place: cell for cell in stated}
    for cell in reread:
        original = by_place[cell.place]
        assert (cell.printed, cell.stands_out) == (original.printed, original.stands_out)
        assert cell.scenario != original.scenario
        assert cell.why


@pytest.mark.parametrize("table", ["table1", "table2"])
def test_the_iris_row_of_ten_thousand_is_read_as_a_hundred_thousand(table: str) -> None:
    stated, reread = cells_of(table, "iris")
    by_place = {cell.place: cell for cell in stated}
    row = [cell for cell in reread if cell.row == "epsilon = 10^4"]
    assert len(row) == 6
    for cell in row:
        assert changes(cell.scenario, by_place[cell.place].scenario) == {"privacy.epsilon": 1e5}
        assert cell.reading == "epsilon = 10^5"


def test_two_iris_energies_at_maximum_power_are_exchanged() -> None:
    stated, reread = cells_of("table2", "iris")
    by_place = {cell.place: cell for cell in stated}
    row = {cell.column: cell for cell in reread if cell.row == "max. power"}
    assert set(row) == {"4 workers, alpha = 10", "4 workers, alpha = 10^5"}
    for column, alpha, label in (("4 workers, alpha = 10", 1e5, "10^5"), ("4 workers, alpha = 10^5", 10.0, "10")):
        cell = row[column]
        assert changes(cell.scenario, by_place[cell.place].scenario) == {"mixing.alpha": alpha}
        assert cell.reading == f"alpha = {label}"


@pytest.mark.parametrize("table", ["table1", "table2"])
def test_mnist_is_read_with_ten_times_alpha_and_a_fitted_epsilon(table: str) -> None:
    stated, reread = cells_of(table, "mnist")
    for original, cell in zip(stated, reread, strict=True):
        assert cell.place == original.place
        changed = changes(cell.scenario, original.scenario)
        assert changed.pop("mixing.alpha") == 10 * original.scenario.mixing.alpha
        assert f"alpha = {power_of_ten(10 * original.scenario.mixing.alpha)}" in cell.reading
        if original.row != "max. power":
            epsilon = changed.pop("privacy.epsilon")
            assert epsilon == pytest.approx(6.935 * original.scenario.privacy.epsilon, rel=1e-12)
            assert f"epsilon = {power_of_ten(epsilon)}" in cell.reading
            if table == "table2":
                noise = changed.pop("radio.noise_dbm")
                # Energy is in proportion to the noise: 0.130 of it.
                assert 10 ** ((noise + 114) / 10) == pytest.approx(0.130, abs=0.0005)
                assert f"noise {noise:g} dBm" in cell.reading
        assert changed == {}


# --- Requests ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "count"),
    [
        ({"targets": ("table1",)}, 30 + 6 + 30 + 30),
        ({"targets": ("table1",), "as_printed": True}, 60),
        ({"targets": ("table2",), "dataset": "iris"}, 30 + 8),
        ({"targets": ("table2", "fig3"), "dataset": "iris"}, 30 + 8),
        ({"targets": ("table2",), "dataset": "mnist"}, 60),
        ({"targets": ("table1", "table1"), "dataset": "iris", "as_printed": True}, 30),
        ({"targets": ("fig2",)}, 0),
        ({"targets": ("fig3",)}, 12),
        ({"targets": ("fig4",), "dataset": "mnist"}, 20),
        ({"targets": ("all",)}, 96 + 98 + 12 + 20),
        ({"targets": ("all",), "dataset": "iris", "as_printed": True}, 60),
        ({"targets": ("all",), "quick": True}, 12 + 30 + 8),
        ({"targets": ("fig2", "fig3"), "quick": True}, 0),
    ],
)
def test_a_request_takes_as_many_cells_as_the_paper_has_entries(options: dict[str, Any], count: int) -> None:
    request = Request(**options)
    cells = [cell for group in request.cell_groups() for cell in group]
    assert len(cells) == count
    if request.as_printed:
        assert not any(cell.reading for cell in cells)


def test_targets_come_once_and_in_the_order_of_the_paper() -> None:
    assert Request(targets=("fig4", "table1", "fig4", "fig2")).wanted == ("table1", "fig2", "fig4")
    assert Request(targets=("fig2", "all")).wanted == ("table1", "table2", "fig2", "fig3", "fig4")


def test_every_cell_and_seed_is_in_one_batch() -> None:
    request = Request(targets=("table1",), seeds=3)
    for group in request.cell_groups():
        batches = request.batches(group)
        scenarios = [scenario for (part,) in batches for scenario in part.scenarios]
        assert len(scenarios) == len(set(scenarios))
        assert set(scenarios) == {cell.scenario.with_seed(seed) for cell in group for seed in (0, 1, 2)}


def test_a_quick_request_runs_some_cells_as_they_are_and_names_the_others() -> None:
    """What it runs is what the whole request would run; with what it leaves out these are all entries and curves."""
    whole = [cell for group in Request(targets=("all",)).cell_groups() for cell in group]
    request = Request(targets=("all",), quick=True)
    some = [cell for group in request.cell_groups() for cell in group]
    assert set(some) < set(whole)
    assert {cell.dataset for cell in some} == {"iris"}
    left_out = request.left_out()
    assert not set(left_out) & set(some)
    assert {cell for cell in whole if not cell.reading} == {cell for cell in (*some, *left_out) if not cell.reading}
    assert sorted({cell.command for cell in left_out}) == [
        "airmix reproduce fig3",
        "airmix reproduce fig4",
        "airmix reproduce table1 --dataset iris",
        "airmix reproduce table1 --dataset mnist",
        "airmix reproduce table2 --dataset mnist",
    ]
    assert Request(targets=("all",)).left_out() == []


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"targets": ("table3",)}, "'table3'"),
        ({"targets": ("fig2",), "dataset": "digits"}, "'digits': must be iris or mnist"),
        ({"targets": ("fig2",), "seeds": 0}, "0: must be at least 1"),
        ({"targets": ("fig3",), "quick": True}, "--quick: decides nothing of fig3 on MNIST; run airmix reproduce fig3"),
        ({"targets": ("table1",), "dataset": "mnist", "quick": True}, "run airmix reproduce table1 --dataset mnist"),
        ({"targets": ("fig2",), "seeds": 10_001}, "10001: must be at least 1 and at most 10000"),
        ({"targets": ("fig3", "fig4"), "dataset": "iris"}, "nothing of fig3 and fig4"),
    ],
)
def test_requests_that_make_no_sense(options: dict[str, Any], part: str) -> None:
    with pytest.raises(ScenarioError, match=part):
        Request(**options)


# --- Labels -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "label"),
    [
        (1.0, "1"),
        (5.0, "5"),
        (10.0, "10"),
        (0.5, "0.5"),
        (69.35, "69.35"),
        (99.0, "99"),
        (100.0, "10^2"),
        (1000.0, "10^3"),
        (1e5, "10^5"),
        (1e8, "10^8"),
        (693.5, "6.935e2"),
        (693500.0, "6.935e5"),
        (6.935e8, "6.935e8"),
        (200.0, "2e2"),
    ],
)
def test_power_of_ten(value: float, label: str) -> None:
    assert power_of_ten(value) == label
    assert float(label.replace("10^", "1e")) == value


# --- Figures ----------------------------------------------------------------------------------------------------------


def test_fig3_has_every_policy_at_both_exponents() -> None:
    base = preset("mnist")
    cells = fig3_cells(base)
    policies = {
        "NonMix": {"mixing.policy": "nonmix"},
        "EqualMix": {"mixing.policy": "equalmix"},
        "DirMix(5)": {"mixing.policy": "dirmix", "mixing.alpha": 5.0},
    }
    expected = {}
    for scheduled, exponent, policy in itertools.product((64, 8), (2, 4), policies):
        expected[f"n = {exponent}, {scheduled} workers", policy] = {
            "radio.scheduled": scheduled,
            "radio.path_loss_exponent": float(exponent),
            "radio.fading": "none",
            "mixing.power": "max",
            **policies[policy],
        }
    assert [(cell.row, cell.column) for cell in cells] == list(expected)
    for cell, settings in zip(cells, expected.values(), strict=True):
        assert flat(cell.scenario) == flat(base) | settings
        assert (cell.target, cell.dataset, cell.quantity, cell.printed) == ("fig3", "mnist", "accuracy", None)


def test_fig4_has_every_fading_under_both_assignments() -> None:
    base = preset("mnist")
    cells = fig4_cells(base)
    fadings: dict[str, dict[str, Any]] = {
        "no fading": {"radio.fading": "none"},
        "Rician, K = 10": {"radio.fading": "rician", "radio.rician_k": 10.0},
        "Rician, K = 3": {"radio.fading": "rician", "radio.rician_k": 3.0},
        "Rician, K = 1": {"radio.fading": "rician", "radio.rician_k": 1.0},
        "Rayleigh": {"radio.fading": "rayleigh"},
    }
    assert len(cells) == 2 * 2 * 5
    assert len({cell.place for cell in cells}) == 20
    for cell in cells:
        assignment, _, workers = cell.row.partition(", ")
        assert assignment in ("random", "max-min")
        assert workers in ("64 workers", "8 workers")
        assert flat(cell.scenario) == flat(base) | fadings[cell.column] | {
            "radio.scheduled": int(workers.split()[0]),
            "radio.path_loss_exponent": 4.0,
            "mixing.policy": "dirmix",
            "mixing.alpha": 5.0,
            "mixing.power": "max",
            "mixing.assignment": assignment,
        }
        assert cell.printed is None


# --- Fig. 2 -----------------------------------------------------------------------------------------------------------


def test_fig2_covers_alphas_from_one_worker_alone_to_all_alike() -> None:
    drawn = draw_mixing_ratios()
    assert [each.alpha for each in drawn] == [0.1, 1.0, 10.0, 100.0, 1e5]
    for each in drawn:
        assert each.ratios.shape == (20_000, 8)
        assert np.allclose(each.ratios.sum(axis=1), 1.0, rtol=0, atol=1e-12)
        assert each.ratios.min() >= 0
    shares = [each.to_dict()["measured"]["largest_share"] for each in drawn]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] > 0.9
    assert shares[-1] == pytest.approx(1 / 8, rel=0.02)


@pytest.mark.parametrize("number", range(5))
def test_fig2_against_the_dirichlet_law_and_another_generator(number: int) -> None:
    """Each of N ratios has mean 1/N and variance (1/N)(1 - 1/N) / (alpha + 1)."""
    plain = draw_mixing_ratios()[number].to_dict()
    alpha, workers, slots = plain["alpha"], 8, 20_000
    expected, drawn = plain["expected"], plain["measured"]
    moments = workers * ((1 / workers) ** 2 + (1 / workers) * (1 - 1 / workers) / (alpha + 1))
    assert expected == pytest.approx(moments, rel=1e-12)

    generator = np.random.default_rng(20_000 + number)
    theirs = generator.dirichlet(np.full(workers, alpha / workers), slots)
    squares, largest = (theirs**2).sum(axis=1), theirs.max(axis=1)
    error = float(squares.std() / math.sqrt(slots))
    assert float(squares.mean()) == pytest.approx(expected, abs=4.5 * error)
    assert drawn["mean"] == pytest.approx(expected, abs=4.5 * error)
    both = float(largest.std() * math.sqrt(2 / slots))
    assert drawn["largest_share"] == pytest.approx(float(largest.mean()), abs=4.5 * both)
    assert error < 0.002  # so the closed form is told from any of its neighbours
    assert abs(moments - (1 + alpha / workers) / (2 + alpha)) > 4.5 * error or alpha > 1000


def test_fig2_in_the_shape_of_a_cell() -> None:
    plain = draw_mixing_ratios()[1].to_dict()
    assert (plain["target"], plain["alpha"], plain["printed"], plain["verdict"]) == ("fig2", 1.0, None, "")
    assert plain["expected"] == pytest.approx(9 / 16)  # (1 + 1/8) / 2
    assert plain["measured"]["mean"] == pytest.approx(9 / 16, abs=0.01)
