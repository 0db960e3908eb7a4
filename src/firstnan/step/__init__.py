"""All ranks of one step: step 1 of the mission.

Takes the summaries of all ranks, puts their communication calls together and tells where bad values began and how they
spread. Knows no record beyond what summaries hold. Start at :mod:`firstnan.step.matching`, then
:mod:`firstnan.step.spread`.
"""
