"""The paper's tables and figures, run again and put beside what it printed."""

from airmixml.reproduction.paper_cells import TARGETS, Request
from airmixml.reproduction.reproduce import Reproduction, reproduce

__all__ = ["TARGETS", "Reproduction", "Request", "reproduce"]
