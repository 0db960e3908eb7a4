"""Ranks that must hold the same numbers: do they?

Everything here compares fingerprints (:mod:`firstnan.read.fingerprints`) of several ranks, exactly and never with a
tolerance, and reads what is reported once more. It finds what computes wrongly without a NaN: a gradient that is not
reduced, a flipped bit, a corrupted message, a device that computes another result. It knows nothing of files; where it
needs more of a rank it asks (:class:`firstnan.agree.sources.Sources`).

Start reading at :mod:`firstnan.agree.disagreements`; :mod:`.parameters`, :mod:`.communication` and :mod:`.operators`
hold one rule each.
"""
