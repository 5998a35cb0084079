"""docs/trust.md shows what benchmarks/results/integers*.json hold, and what the formulas of the air give."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path

import pytest

from airmixml import Scenario
from airmixml.privacy.gaussian import gaussian_mu
from airmixml.radio.masking import informed_with, most_withstood
from integers_by_hand import calibrated, code_for
from residues_on_air import (
    analog_gain_error,
    analog_snr_db,
    largest_group,
    plane_error_rate,
    symbols_in_planes,
)

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs/trust.md").read_text(encoding="utf-8")
WORKERS, BITS, NUMBERS = 60_000, 20, 35_456


def accuracies(name: str) -> dict[tuple[float, int], str]:
    rows = json.loads((ROOT / f"benchmarks/results/{name}.json").read_text(encoding="utf-8"))["rows"]
    return {(row["epsilon"], row["bits"]): f"{100 * row['accuracy']:.1f} %" for row in rows}


@pytest.mark.parametrize("bits", [0, 16, 8])
def test_accuracies(bits: int) -> None:
    found = accuracies("integers_full")
    said = f"{bits} bits" if bits else "Gaussian noise"
    assert f"{said} {found[1.0, bits]} and {found[10.0, bits]}" in " ".join(TEXT.split())


WITHSTOOD = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in TEXT.splitlines()
    if line.startswith("| `trustless")
]
WITHSTOOD = [row for row in WITHSTOOD if len(row) == 4 and " of " in row[1]]


@pytest.mark.parametrize(
    "row", [pytest.param(row, marks=[pytest.mark.long] if "60,000" in row[1] else [], id=row[0]) for row in WITHSTOOD]
)
def test_colluders_that_presets_withstand(row: list[str]) -> None:
    """What the code finds; ``tests/masks/test_masks_colluders.py`` has it from exact tails."""
    scenario = Scenario.preset(row[0].strip("`"))
    seats, most, informed = scenario.radio.scheduled, most_withstood(scenario), informed_with(scenario)
    assert most is not None
    assert most >= 0.01 * seats
    assert row[1] == f"{most:,} of {seats:,} ({100 * most / seats:.2g} %)"
    assert row[3] == (str(informed[0]) if informed else "-")


def test_all_presets_with_masks_say_what_they_withstand() -> None:
    assert len(WITHSTOOD) == 6


def test_the_analog_sum_of_residues() -> None:
    snr_db = analog_snr_db(BITS, 6.0)
    # Half of -114 dBm is on the real part; 250 sqrt(2) m at -32 dB per metre, squared.
    watts_dbm = -114 - 10 * math.log10(2) + snr_db + 32 + 20 * math.log10(250 * math.sqrt(2))
    assert f"{snr_db:.0f} dB of SNR per worker ({watts_dbm:.0f} dBm, 5 MW)" in " ".join(TEXT.split())
    assert analog_gain_error(BITS, WORKERS, 6.0) == pytest.approx(1e-9, rel=0.2)


@pytest.mark.parametrize(("percent", "group"), [("0.1", 25_984), ("0.3", 2545), ("1", 199), ("5", 6)])
def test_bit_planes(percent: str, group: int) -> None:
    gain_error = float(percent) / 100
    symbols = symbols_in_planes(WORKERS, BITS, group)
    rate = 0.01 / (NUMBERS * symbols)
    assert plane_error_rate(group, gain_error, 25.0) <= rate
    assert largest_group(gain_error, 25.0, rate) == group
    with (ROOT / "benchmarks/results/residues_on_air.csv").open(encoding="utf-8", newline="") as file:
        assert [f"bit planes, gains right to {percent} %", f"groups of {group:,}", str(symbols)] in [
            row[:3] for row in csv.reader(file)
        ]


@pytest.mark.parametrize(
    ("numbers", "said"), [(NUMBERS, "0.5 % wider than Gaussian noise"), (535_040, "0.14 % (1,024")]
)
def test_how_much_wider_the_noise_is(numbers: int, said: str) -> None:
    code = code_for(numbers=numbers, norm=math.sqrt(1.25), workers=WORKERS, bits=BITS)
    mechanism = calibrated(code, workers=WORKERS, epsilon=1.0, delta=1e-5)
    wider = math.sqrt(mechanism.noise_variance) * gaussian_mu(1.0, 1e-5) / code.norm - 1.0
    assert wider == pytest.approx(float(said.split(" %", maxsplit=1)[0]) / 100, rel=0.05)
    assert said in TEXT
