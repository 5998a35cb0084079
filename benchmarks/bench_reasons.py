"""Why a target is missed, by the names of its row; every missed one must have a reason here."""

from __future__ import annotations

from bench_tables import Results, is_met, markdown

_SLOTS = "all slots of `paper-mnist`"
_BARE = "bare embedding-bag plus noise (torch)"
_NO_ROOM = (
    "The bare product with noise is itself only 4 (ARM) to 7 (x86) times faster than the per-slot loop, and 1.4 to 4 "
    "than CSR products: too little is left for schedule, ratios, powers, ledger and report."
)

_HOST = (
    "The usual loop waits for the processor, and was faster on this host (30 s) than on one with fewer free cores "
    "(55 s); ours took 5.2 and 5.5 s."
)
_ACCOUNT = "import numpy, scipy.special, typer, rich.console, rich.table, rich.progress"

REASONS: dict[tuple[str, str], str] = {
    **{
        (f"airmix account --preset {preset} --no-picture", _ACCOUNT): "Its libraries take half of it, or more."
        for preset in ("paper-iris", "paper-mnist", "private-mnist")
    },
    (
        "from airmixml import AirMixClassifier",
        "import sklearn.base",
    ): "scikit-learn alone takes longer.",
    (
        "image network of one cell (10 epochs, no scoring), one GPU",
        "usual loop (DataLoader, float32, Adam)",
    ): _HOST,
    (
        "Table I, MNIST half (30 cells, 3 seeds), one GPU",
        "usual loop (DataLoader, float32, Adam), training alone",
    ): _HOST,
    (_SLOTS, "per-slot NumPy loop"): _NO_ROOM,
    (_SLOTS, "per-worker Python loop"): _NO_ROOM,
    (_SLOTS, "SciPy CSR products"): _NO_ROOM,
    (_SLOTS, _BARE): (
        "Beside the bare operations: random words that are the same on every device cost more than torch's own noise."
    ),
    (
        "`airmix demo`, from start to picture",
        "",
    ): "Importing torch, SciPy and matplotlib, and drawing the picture, take longest.",
    ("`private-mnist` end to end", "scikit-learn: same features, exact normal equations, no radio"): (
        "Products of private inputs are added up in float64, so that rounding adds nothing to the sensitivity; "
        "scikit-learn does it in float32."
    ),
    ("least-squares attack of `paper-mnist`", "SciPy `lsmr`, column by column"): (
        "Both wait for memory. CSR products, half precision and other block widths gained nothing."
    ),
}


def missed(results: Results) -> dict[tuple[str, str], list[str]]:
    """Return the machines that miss a target, by the names of the row."""
    found: dict[tuple[str, str], list[str]] = {}
    for machine, result in results.items():
        for row in result["rows"]:
            if is_met(row) is False:
                found.setdefault((row["work"], row["against"]), []).append(machine)
    return found


def reasons(results: Results) -> str:
    """Return a table of the missed targets, those of one reason together, or that there are none."""
    works: dict[str, list[str]] = {}
    for name in missed(results):
        works.setdefault(REASONS.get(name, ""), []).append(name[0])
    lines = [[", ".join(dict.fromkeys(names)), reason] for reason, names in works.items()]
    return markdown(["work", "reason"], lines) if lines else "No target is missed."
