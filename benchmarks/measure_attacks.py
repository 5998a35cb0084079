"""Attack and audit the paper's settings and ours, and keep the figures that docs/attacks.md shows.

python benchmarks/measure_attacks.py --device cuda --parts gallery,alpha,distance,slots,seeds,informed
python benchmarks/measure_attacks.py --parts audits,faults

Every part is one or several commands of ``airmix``; what they print as JSON is kept, together with the command. Attacks
on several settings are the cases of one result. Pictures are in the folders below --out.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from airmixml import Scenario

RESULTS = Path(__file__).parent / "results" / "attacks.json"
AUDITED = {
    "paper-iris": "--preset paper-iris --trials 100000",
    "paper-mnist": "--preset paper-mnist --trials 20000",
    "paper-mnist, maximum power": "--preset paper-mnist --set mixing.power=max",
    "private-iris": "--preset private-iris --trials 100000",
    "private-mnist": "--preset private-mnist",
    "private-mnist-release": "--preset private-mnist-release --trials 20000",
}
FAULTS = {
    "half-noise": "--preset paper-iris --fault half-noise --trials 100000",
    "wrong-sensitivity": "--preset paper-iris --fault wrong-sensitivity --trials 100000",
    "schedule-revealed": "--preset paper-iris --fault schedule-revealed --adversary release --trials 100000",
}
INFORMED = ",".join(f"informed-{name}" for name in ("server", "release", "eavesdropper", "everyone"))
PRESETS = (
    "paper-iris", "private-iris", "trustless-iris", "digits", "trustless-digits", "private-table", "private-images",
    "paper-mnist", "private-mnist-release", "private-mnist", "trustless-mnist", "trustless-digits-rounds",
    "private-mnist-rounds", "trustless-digits-digital",
)  # fmt: skip
MAXIMUM = "--preset paper-mnist --set mixing.power=max"
SERVER, HEARING = "least-squares,non-negative,prior", "prior,release,eavesdropper"


def varied(scenario: str, key: str, values: str, attacks: str, more: str = "") -> dict[str, str]:
    """Return a command for each value of a key, by what tables call it."""
    name = key.rpartition(".")[2].replace("_", " ")
    return {
        f"{name} {value}": f"attack {scenario}{more} --set {key}={value} --attacks {attacks}"
        for value in values.split(",")
    }


EVERY = f"{SERVER},release,eavesdropper,everyone"
OURS = ("private-mnist-release", "private-mnist", "trustless-mnist")
DISTANCE = "privacy.eavesdropper_distance_metres"
PARTS: dict[str, dict[str, str | dict[str, str]]] = {
    "gallery": {
        "gallery": {
            "maximum power": f"attack {MAXIMUM} --attacks {EVERY}",
            **varied("--preset paper-mnist", "privacy.epsilon", "1e8,1e5,100,10", EVERY, " --set mixing.power=dp"),
            **{name: f"attack --preset {name} --attacks {EVERY}" for name in OURS},
        },
        "trustless": varied("--preset trustless-mnist", "privacy.epsilon", "10,1", "eavesdropper,everyone"),
    },
    "alpha": {"alpha": varied(MAXIMUM, "mixing.alpha", "1e-3,1,10,100,1e7", HEARING)},
    "distance": {
        "distance": varied("--preset paper-mnist", DISTANCE, "1,10,30,100,300", "eavesdropper"),
        "distance, private-mnist": varied("--preset private-mnist", DISTANCE, "1,10,30,100", "eavesdropper"),
    },
    "slots": {"slots": varied(MAXIMUM, "radio.slots", "100000,60000,30000,10000,3000", SERVER)},
    "seeds": {
        f"seed {seed}": {"paper-mnist": f"attack --preset paper-mnist --seed {seed} --attacks {HEARING}"}
        for seed in (1, 2, 3)
    },
    "informed": {f"informed {name}": {name: f"attack --preset {name} --attacks {INFORMED}"} for name in PRESETS},
    "audits": {f"audit {name}": f"audit {arguments}" for name, arguments in AUDITED.items()},
    "faults": {f"fault {name}": f"audit {arguments}" for name, arguments in FAULTS.items()},
}


def measure(name: str, command: str, extra: list[str], out: Path) -> dict[str, Any]:
    folder = out / name.replace(",", "").replace(" ", "-")
    started = time.perf_counter()
    arguments = [*shlex.split(command), "--out", str(folder), "--json", *extra]
    done = subprocess.run([sys.executable, "-m", "airmixml", *arguments], stdout=subprocess.PIPE, check=False)
    if done.returncode not in (0, 1) or not done.stdout:
        raise SystemExit(f"airmix {command}: exit code {done.returncode}")
    seconds = time.perf_counter() - started
    print(f"{name}: {seconds:.1f} s", flush=True)
    found = {name: value for name, value in json.loads(done.stdout).items() if name not in ("run_dir", "report")}
    scenario = Scenario.load(folder / "scenario.toml")
    sizes = {"slots": scenario.radio.slots, "workers": scenario.workers.count}
    return {"command": f"airmix {command}", "command_seconds": seconds, **sizes, **found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--device", default="cpu", help="of the attacks; audits run on the CPU")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--out", type=Path, default=Path("runs/attacks"))
    parser.add_argument("--results", type=Path, default=RESULTS)
    asked = parser.parse_args()
    results = json.loads(asked.results.read_text(encoding="utf-8")) if asked.results.exists() else {}
    for part in asked.parts.split(","):
        for name, command in PARTS[part].items():
            extra = [] if asked.data_dir is None else ["--data-dir", str(asked.data_dir)]
            if isinstance(command, str):
                results[name] = measure(name, command, extra, asked.out)
            else:
                extra += ["--device", asked.device]
                named = command.items()
                cases = [
                    {"label": label, **measure(f"{name} {label}", each, extra, asked.out)} for label, each in named
                ]
                commands = "; ".join(case["command"] for case in cases)
                results[name] = {"command": commands, "seed": cases[0]["seed"], "cases": cases}
            asked.results.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
