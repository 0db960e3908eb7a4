"""Where a bad value of one rank came from and where it ended.

Start at :mod:`firstnan.rank.taint.def_use` (who wrote a bad value and who read it); :mod:`.events` are births and
entries, :mod:`.entries` says what an entry is, :mod:`.links` how strong a link is, :mod:`.legality` which -Inf a mask
wrote, :mod:`.endings` where a value ended: in the loss, a gradient, a communication, or nowhere.
"""
