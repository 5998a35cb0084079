"""Reports: what a folder holds as one page that opens anywhere."""

from typing import TYPE_CHECKING

from airmixml.registry import import_late
from airmixml.storage.run_folder import REPORT

if TYPE_CHECKING:
    from airmixml.reports.pages import write_report

__all__ = ["REPORT", "write_report"]

__getattr__ = import_late(__name__)
