"""The paper's tables and figures, run again and put beside what it printed."""

from airmixml.reproduction.reproduce import Reproduction, reproduce
from airmixml.reproduction.request import TARGETS, Request

__all__ = ["TARGETS", "Reproduction", "Request", "reproduce"]
