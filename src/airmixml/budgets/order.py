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


def loss_to(adversary: str, losses: Mapping[str, Loss | None]) -> Loss:
    """Return the loss to an adversary: its own, else the one to an adversary that learns at least as much.

    None says that nothing bounds its own, and that the neighbours of a stronger one's are not the same.
    """
    own = losses.get(adversary)
    if own is not None:
        return own
    for stronger, loss in losses.items():
        if adversary not in losses and loss is not None and adversary in _COVERS.get(stronger, ()):
            return loss
    stated = ", ".join(name for name, loss in losses.items() if loss is not None) or "nobody"
    raise PrivacyError(
        f"adversary {adversary}: the ledger keeps a budget against it, and nothing bounds what this mechanism reveals "
        f"to it (there is a bound for {stated}); state one, or keep a ledger without that adversary"
    )
