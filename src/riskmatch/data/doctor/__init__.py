"""Examine image data sets for faults; every finding has a path and a cure."""

from riskmatch.data.doctor.contact_sheet import contact_sheet
from riskmatch.data.doctor.examine import examine
from riskmatch.data.doctor.findings import Examination, Finding, print_examination

__all__ = ["Examination", "Finding", "contact_sheet", "examine", "print_examination"]
