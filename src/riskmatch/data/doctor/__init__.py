"""What is wrong with a data set of images, each fault with its path and its cure."""

from riskmatch.data.doctor.contact_sheet import contact_sheet
from riskmatch.data.doctor.examination import Examination, Finding
from riskmatch.data.doctor.examine import examine
from riskmatch.data.doctor.report import report

__all__ = ["Examination", "Finding", "contact_sheet", "examine", "report"]
