"""How certain a prediction may be."""

from typing import Final

NEVER_CERTAIN: Final = 1e-6
"""No probability that least squares or a logistic gives is nearer to 0 or 1."""
