"""What the attacks on one setting come to, in words that need no table."""

from __future__ import annotations

from typing import Any, Final

ADVERSARIES: Final = ("server", "release", "eavesdropper")
GRADES: Final = ("hidden", "leaks", "exposed")
# Of what guessing leaves open: from here on it is a leak, and from here on most of it is out.
_LEAK: Final = 0.05
_EXPOSED: Final = 0.5
_CHANCE_ALONE: Final = 1e-4
# A single sample among all that are held may be named by chance once in as many.
_NAMED_BY_CHANCE: Final = 1e-3
_BEYOND_DOUBT: Final = 5.0


def server_share(found: dict[str, Any]) -> float:
    """Return how much one method gave away: the largest of what it read, inferred, copied and saw, beyond chance."""
    return max(_read(found), _inferred(found), _copied(found), float(found["explained"]))


def grade_server(found: dict[str, Any]) -> str:
    """Grade one method of the server. Copies of a few workers are a leak, however many others there are."""
    share = server_share(found)
    return "exposed" if share >= _EXPOSED else "leaks" if share >= _LEAK or _copied(found) else "hidden"


def _read(found: dict[str, Any]) -> float:
    return float(found["beyond_guessing"]) if found["p_value"] < _CHANCE_ALONE else 0.0


def _inferred(found: dict[str, Any]) -> float:
    return float(found["labels_beyond_guessing"]) if found["labels"]["p_value"] < _CHANCE_ALONE else 0.0


def _copied(found: dict[str, Any]) -> float:
    return float(found["copied_share"]) if found["copied_p_value"] < _CHANCE_ALONE else 0.0


def grade_listener(found: dict[str, Any]) -> str:
    """Grade what nearest neighbours and unmixing find without a schedule, of all workers or of one nearby."""
    clearest, hits, beside = found["clearest_slots"], _hits(found), found.get("beside")
    identified, groups = _beyond_chance(clearest), _beyond_chance(found["unmixing"])
    nearby = _beyond_chance(beside) if beside else 0
    if hits >= _EXPOSED or identified >= _EXPOSED * max(clearest["looked_at"], 1):
        return "exposed"
    if beside and nearby and nearby >= _EXPOSED * beside["looked_at"]:
        return "exposed"
    return "leaks" if hits >= _LEAK or identified or groups or nearby or _renamed(found) >= _LEAK else "hidden"


def worst_grade(result: dict[str, Any]) -> str:
    """Return the worst grade over all adversaries that attacked."""
    grades: list[str] = [result[name]["grade"] for name in ADVERSARIES if result[name] is not None]
    return max(grades, key=GRADES.index)


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
    guessing, reads = f"guessing gets {100 * best['guessing']:.0f} %", f"{100 * best['recognised_share']:.0f} %"
    if server["grade"] == "hidden":
        return f"the server reads samples no better than by guessing ({reads} right; {guessing})"
    told = [f"reads {best['recognised']:,} of {workers:,} samples ({reads}; {guessing})"]
    if _copied(best):
        told.append(f"copies {best['copied']:,} of them")
    if _inferred(best) > _read(best) + 0.01:
        told.append(f"infers {100 * best['labels']['accuracy']:.0f} % of the labels")
    if len(told) == 1 and _read(best) < _LEAK:
        told.append(f"sees {100 * best['explained']:.0f} % of what sets samples apart")
    return f"the server {_listed(told)}"


def _listener_in_words(found: dict[str, Any], who: str) -> str:
    if found["grade"] == "hidden":
        return f"{who} finds nobody's sample"
    clearest, unmixing, beside = found["clearest_slots"], found["unmixing"], found.get("beside")
    told = []
    if beside and _beyond_chance(beside):
        told.append(f"knows its sample in {beside['identified']} of {beside['looked_at']} slots")
    if _beyond_chance(clearest):
        told.append(f"names the sample of {clearest['identified']} of the {clearest['looked_at']} clearest workers")
    if unmixed := _beyond_chance(unmixing):
        told.append(f"unmixes {unmixed:,} sample{'s' if unmixed > 1 else ''}")
    if _hits(found) >= _LEAK:
        told.append(f"can tell of {100 * found['linkage']['hit_rate']:.0f} % of the samples that they took part")
    if not told:
        told.append(f"names the sample in {100 * found['linkage']['reidentified']:.0f} % of the slots")
    return f"{who} {_listed(told)}"


def _listed(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _beyond_chance(found: dict[str, Any]) -> int:
    """Return how many were identified; 0 where that may be chance."""
    return int(found["identified"]) if found["p_value"] < _NAMED_BY_CHANCE else 0


def _hits(found: dict[str, Any]) -> float:
    """Return the share of held samples that are told from others, beyond chance; 0 where that may be chance."""
    linkage = found["linkage"]
    by_chance = linkage["false_positive_rate"]
    told_apart = abs(linkage["auc"] - 0.5) > _BEYOND_DOUBT * linkage["auc_chance_deviation"]
    return float((linkage["hit_rate"] - by_chance) / (1.0 - by_chance)) if told_apart else 0.0


def _renamed(found: dict[str, Any]) -> float:
    """Return the share of slots whose sample is named among the candidates, beyond chance."""
    linkage = found["linkage"]
    by_chance = linkage["reidentified_p_value"] >= _NAMED_BY_CHANCE
    return 0.0 if by_chance else float(linkage["reidentified"] - linkage["reidentified_chance"])
