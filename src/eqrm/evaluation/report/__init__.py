"""The report: one HTML page that shows an evaluation, and needs nothing else to be opened."""

from eqrm.evaluation.report.page import report_html as report_html
from eqrm.evaluation.report.page import write_report as write_report
