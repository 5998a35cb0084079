"""Budgets that last: the rules by which losses add up, and the ledger that keeps them in a file. Needs no torch."""

from airmixml.budgets.ledger import LedgerFile, Request, Standing
from airmixml.budgets.rows import Entry, People
from airmixml.budgets.rules import Budget, Loss

__all__ = ["Budget", "Entry", "LedgerFile", "Loss", "People", "Request", "Standing"]
