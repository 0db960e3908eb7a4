"""Files into records.

Knows how dumps lie on disk, in archives and in remote stores, every layout that MSProbe wrote, and damage. Knows
nothing of what a value means for the answer. Start at :mod:`firstnan.read.layout.dump_layout` (what is there), then
:mod:`firstnan.read.scan.sweep` (a dump.json read where it matters) and :mod:`firstnan.read.records.full_reader` (any
other dump.json, whole). What one of these two readers tells, records and problems, the other tells too.
:mod:`.sources` opens files wherever they lie, :mod:`.json` reads damaged JSON, :mod:`.callers` finds lines of code,
:mod:`.fingerprints` keeps fingerprints of values for :mod:`firstnan.agree`.
"""
