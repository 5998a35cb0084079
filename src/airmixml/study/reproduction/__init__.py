"""The paper's tables and figures, run again and put beside what it printed."""

from airmixml.study.reproduction.reproduce import Reproduction, reproduce
from airmixml.study.reproduction.request import TARGETS, Request

__all__ = ["TARGETS", "Reproduction", "Request", "reproduce"]
