"""What the attacks on one setting come to, in words that need no table."""

from __future__ import annotations

from typing import Any, Final

__all__ = ["ADVERSARIES", "GRADES", "grade_listener", "grade_server", "verdict_of", "worst_grade"]

ADVERSARIES: Final = ("server", "release", "eavesdropper")
GRADES: Final = ("hidden", "leaks", "exposed")
# Of what guessing leaves open: from here on it is a leak, and from here on most of it is out.
_LEAK: Final = 0.05
_EXPOSED: Final = 0.5
_CHANCE_ALONE: Final = 1e-4
_BEYOND_DOUBT: Final = 5.0


def grade_server(found: dict[str, Any]) -> str:
    """Grade what the server reads from samples or labels beyond chance, or sees of samples that it cannot read."""
    read = found["beyond_guessing"] if found["p_value"] < _CHANCE_ALONE else 0.0
    inferred = found["labels_beyond_guessing"] if found["labels"]["p_value"] < _CHANCE_ALONE else 0.0
    share = max(read, inferred, found["explained"])
    return "exposed" if share >= _EXPOSED else "leaks" if share >= _LEAK else "hidden"


def grade_listener(found: dict[str, Any]) -> str:
    """Grade what nearest neighbours and unmixing find without a schedule."""
    clearest, hits = found["clearest_slots"], _hits(found)
    identified, groups = _beyond_chance(clearest), _beyond_chance(found["unmixing"])
    if hits >= _EXPOSED or identified >= _EXPOSED * clearest["looked_at"]:
        return "exposed"
    return "leaks" if hits >= _LEAK or identified or groups else "hidden"


def worst_grade(result: dict[str, Any]) -> str:
    """Return the worst grade over all adversaries that attacked."""
    grades = [result[name]["grade"] for name in ADVERSARIES if result[name] is not None]
    return max(grades, key=GRADES.index, default="hidden")


def verdict_of(result: dict[str, Any]) -> str:
    """Return one line for whoever decides."""
    parts = []
    if result["server"] is not None:
        parts.append(_server_in_words(result["server"], result["workers"]))
    if result["release"] is not None:
        parts.append(_listener_in_words(result["release"], "whoever gets the mixtures"))
    if result["eavesdropper"] is not None:
        metres = result["eavesdropper_distance_metres"]
        parts.append(_listener_in_words(result["eavesdropper"], f"an eavesdropper {metres:g} m from a worker"))
    return f"{worst_grade(result).upper()}: {'; '.join(parts)}."


def _server_in_words(server: dict[str, Any], workers: int) -> str:
    best = server["methods"][server["best"]]
    share, labels = best["recognised_share"], best["labels"]["accuracy"]
    guessing = f"guessing gets {100 * best['guessing']:.0f} %"
    if server["grade"] == "hidden":
        return f"the server reads samples no better than by guessing ({100 * share:.0f} % right; {guessing})"
    also = f", and infers {100 * labels:.0f} % of the labels" if labels > share + 0.01 else ""
    explained = max(figures["explained"] for figures in server["methods"].values())
    if explained >= _LEAK and (best["beyond_guessing"] < _LEAK or best["p_value"] >= _CHANCE_ALONE):
        also += f", and sees {100 * explained:.0f} % of what sets samples apart"
    return f"the server reads {best['recognised']:,} of {workers:,} samples ({100 * share:.0f} %; {guessing}){also}"


def _listener_in_words(found: dict[str, Any], who: str) -> str:
    if found["grade"] == "hidden":
        return f"{who} finds nobody's sample"
    clearest, unmixing = found["clearest_slots"], found["unmixing"]
    told = []
    if _beyond_chance(clearest):
        told.append(f"knows whose sample is in {clearest['identified']} of the {clearest['looked_at']} clearest slots")
    if unmixed := _beyond_chance(unmixing):
        told.append(f"unmixes {unmixed:,} sample{'s' if unmixed > 1 else ''}")
    if _hits(found) >= _LEAK:
        told.append(f"can tell of {100 * found['linkage']['hit_rate']:.0f} % of the samples that they took part")
    return f"{who} {' and '.join(told)}"


def _beyond_chance(found: dict[str, Any]) -> int:
    """Return how many were identified; 0 where that may be chance."""
    return int(found["identified"]) if found["p_value"] < _CHANCE_ALONE else 0


def _hits(found: dict[str, Any]) -> float:
    """Return the share of held samples that are told from others, beyond chance; 0 where that may be chance."""
    linkage = found["linkage"]
    by_chance = linkage["false_positive_rate"]
    told_apart = abs(linkage["auc"] - 0.5) > _BEYOND_DOUBT * linkage["auc_chance_deviation"]
    return float((linkage["hit_rate"] - by_chance) / (1.0 - by_chance)) if told_apart else 0.0
