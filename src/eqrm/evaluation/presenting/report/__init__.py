"""The report: one HTML page that shows an evaluation, and needs nothing else to be opened."""

from eqrm.evaluation.presenting.report.page import report_html as report_html
from eqrm.evaluation.presenting.report.page import write_report as write_report
