"""The graph of a round: drawn by every worker from a seed that all nonces give, and checked before anything is sent."""

from collections import Counter
from collections.abc import Mapping, Sequence

from airmixml.errors import ProtocolError
from airmixml.masks.graph import MaskGraph, draw_graph
from airmixml.masks.rules import Rules


def graph_of(identities: Sequence[int], degree: int, seed: bytes) -> dict[int, tuple[int, ...]]:
    """Return the neighbours of each worker, in rising order, as often as they share masks; identities are sorted."""
    seats = _drawn(len(identities), degree, seed).neighbours
    return {identities[seat]: tuple(identities[each] for each in others) for seat, others in seats.items()}


def check_graph(graph: Mapping[int, Sequence[int]], identity: int, rules: Rules, seed: bytes) -> None:
    """Refuse a graph that does not keep to the rules, or that is not the one of this seed; say to a worker why."""
    if len(graph[identity]) != rules.degree:
        raise ProtocolError(
            f"graph: worker {identity} has {len(graph[identity])} masks and must have rules.degree = {rules.degree}"
        )
    for each, neighbours in graph.items():
        if len(neighbours) != rules.degree:
            raise ProtocolError(
                f"graph is not regular: worker {each} has {len(neighbours)} masks, and others have {rules.degree}"
            )
        repeats = sum(times * times for times in Counter(neighbours).values()) - rules.degree
        if repeats > rules.most_repeats:
            raise ProtocolError(
                f"graph: worker {each} shares its masks with too few others: they repeat by {repeats}, and "
                f"rules.most_repeats = {rules.most_repeats}; start the round again"
            )
    drawn = graph_of(sorted(graph), rules.degree, seed)
    for each in (identity, *sorted(graph)):
        if tuple(sorted(graph[each])) != drawn[each]:
            raise ProtocolError(
                f"graph: the neighbours of worker {each} are not those that all nonces give; draw the graph from them"
            )
    second = _drawn(len(graph), rules.degree, seed).second_eigenvalue
    if second > rules.second_eigenvalue:
        raise ProtocolError(
            f"graph has the second eigenvalue {second:.4g}, and rules.second_eigenvalue = "
            f"{rules.second_eigenvalue:.4g}; start the round again"
        )


def _drawn(seats: int, degree: int, seed: bytes) -> MaskGraph:
    return draw_graph(seats, degree, int.from_bytes(seed, "big"))
