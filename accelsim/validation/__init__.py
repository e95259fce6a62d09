"""Every hardware model against references that are not its own: `accelsim verify` and the page reports/validation/.

A part (registry.py) yields rows: what a reference says, what the model says, and how far apart they may be. The rest
of the room knows no part: it summarises rows (summary.py) and writes tables, figures and the page (report.py).
"""
