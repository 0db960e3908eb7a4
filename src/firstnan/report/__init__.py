"""One report of all steps.

Puts the answers of all steps together, with the state of every call, what could change the answer, and what is left
out when a report leaves the house. Knows no file and no words. Start at :mod:`firstnan.report.assemble`.
"""
