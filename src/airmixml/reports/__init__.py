"""Reports: what one folder holds, or several do, as one page that opens anywhere."""

from typing import TYPE_CHECKING

from airmixml.registry import import_late
from airmixml.storage.folders import REPORT

if TYPE_CHECKING:
    from airmixml.reports.pages import write_report, write_side_by_side

__all__ = ["REPORT", "write_report", "write_side_by_side"]

__getattr__ = import_late(__name__)
