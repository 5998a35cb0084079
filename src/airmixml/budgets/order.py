"""Which adversary learns at least what another does, so that a loss to the first bounds one to the second.

Only what is proven: the second's view is computed from the first's, with noise of its own at most, and post-processing
reveals nothing. ``everyone`` hears each worker by itself and without noise, so it has what a server or an eavesdropper
receives, and knows who sent. A server has the mixtures that are released, and the schedule besides. An eavesdropper
hears what no server does, and a server knows what no eavesdropper does: neither covers the other.
"""

from collections.abc import Mapping
from typing import Final

from airmixml.budgets.rules import Loss
from airmixml.errors import PrivacyError

_COVERS: Final[Mapping[str, tuple[str, ...]]] = {
    "everyone": ("server", "release", "eavesdropper"),
    "server": ("release",),
}


def loss_to(adversary: str, losses: Mapping[str, Loss]) -> Loss:
    """Return the loss to an adversary: its own, else the one to an adversary that learns at least as much."""
    if adversary in losses:
        return losses[adversary]
    for stronger, loss in losses.items():
        if adversary in _COVERS.get(stronger, ()):
            return loss
    stated = ", ".join(losses) or "nobody"
    raise PrivacyError(
        f"adversary {adversary}: the ledger keeps a budget against it, and nothing bounds what this mechanism reveals "
        f"to it (there is a bound for {stated}); state one, or keep a ledger without that adversary"
    )
