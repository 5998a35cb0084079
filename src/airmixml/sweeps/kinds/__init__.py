"""What is done with the scenarios of a sweep: one file for each kind, and for a command one line here."""

from typing import Final

CELL_KINDS: Final = {
    "run": "airmixml.sweeps.kinds.run_cells:RunCells",
    "attack": "airmixml.sweeps.kinds.attack_cells:AttackCells",
    "audit": "airmixml.sweeps.kinds.audit_cells:AuditCells",
}
"""The commands that can be swept, and what they do with a cell."""
COMMAND_OPTIONS: Final = {"ledger": "run", "attacks": "attack", "audit": "audit"}
"""Options of one command alone."""
