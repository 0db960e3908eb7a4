"""One report of all steps.

Puts the answers of all steps together, with the state of every call, what could change the answer, and what is left
out when a report leaves the house. Knows no file and no words. Start at :mod:`firstnan.report.assemble`. What a
report can hold is :mod:`firstnan.answer.model`, how it is shown :mod:`firstnan.show`.
"""
