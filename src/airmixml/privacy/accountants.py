"""What an accountant is: it says what it can treat, and the epsilon of that.

Each of ours lives in the file of its mathematics; ``airmixml.doors`` names them and finds those of other packages.
"""

from typing import Any, ClassVar, Protocol

from airmixml.doors import ACCOUNTANTS
from airmixml.privacy.mechanism import GaussianSlots


class Accountant(Protocol):
    """Turns slots into an epsilon. A subclass is made without arguments; what it does not define is as here.

    Attributes:
        about: what it is, in one line.
        considers_all_views: whether the least epsilon over all valid descriptions of the slots is taken, or the bound
            stays what it is in print.
        closed_form: whether ``power_factor`` usually knows the answer, so that a calibration takes no time.
    """

    about: ClassVar[str]
    considers_all_views: ClassVar[bool] = True
    closed_form: ClassVar[bool] = False

    def refusal(self, mechanism: GaussianSlots) -> str:
        """Return why the mechanism cannot be treated; empty if it can."""
        return ""

    def epsilon(self, mechanism: GaussianSlots, delta: float) -> float:
        """Return an epsilon that holds at ``delta``, never too small a one."""

    def quick_epsilon(self, mechanism: GaussianSlots, delta: float) -> float:
        """Return an epsilon that holds too but may be larger, for searches over many designs."""
        return self.epsilon(mechanism, delta)

    def power_factor(self, mechanism: GaussianSlots, epsilon: float, delta: float) -> float | None:
        """Return by how much the power may be multiplied to give ``epsilon``; None where that has no closed form."""
        return None


def accountant_named(name: str) -> Accountant:
    """Return the accountant of that name, or raise an error that names the nearest one."""
    made: Any = ACCOUNTANTS.load(name)()
    accountant: Accountant = made
    return accountant


def refuse_poisson(mechanism: GaussianSlots) -> str:
    """Refuse coins that workers toss for themselves, where a theorem was proven for draws without replacement alone."""
    drawn = mechanism.as_drawn().sampling != "poisson"
    return "" if drawn else "its theorem samples without replacement; use pld or rdp"
