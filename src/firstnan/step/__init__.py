"""All ranks of one training step: where bad values began and how they spread.

Takes the summaries of all ranks, puts their communication calls together and tells which ranks put a bad value in and
which received it. Knows no record beyond what summaries hold. Start at :mod:`firstnan.step.matching`, then
:mod:`firstnan.step.spread`.
"""
