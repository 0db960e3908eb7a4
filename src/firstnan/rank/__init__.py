"""One rank by itself: its first anomalous record.

Takes the records of one rank and gives a small summary of it. Knows records and what operators do with values; knows
no other rank, no file and no words. Start at :mod:`firstnan.rank.survey` (the first pass), then
:mod:`firstnan.rank.taint` (who wrote a bad value, who read it, where it ended).
"""
