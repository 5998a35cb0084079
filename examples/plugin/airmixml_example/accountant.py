"""An accountant: zero-concentrated differential privacy (Bun and Steinke 2016, Prop. 1.3 and 1.6)."""

import math

from airmixml.privacy import Accountant, GaussianSlots


class Zcdp(Accountant):
    """Slots with squared shifts s_t are rho-zCDP together, rho = sum_t s_t / 2."""

    about = "zero-concentrated differential privacy, for a known schedule"

    def refusal(self, mechanism: GaussianSlots) -> str:
        """Refuse hidden schedules, which it gives no credit for."""
        return "" if mechanism.sampling == "none" else "no credit for a hidden schedule; use pld"

    def epsilon(self, mechanism: GaussianSlots, delta: float) -> float:
        """Return rho + 2 sqrt(rho ln(1 / delta)), which holds at ``delta``."""
        rho = mechanism.total / 2.0
        return rho + 2.0 * math.sqrt(rho * math.log(1.0 / delta))
