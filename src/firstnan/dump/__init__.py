"""What a dump says, as typed, frozen values.

Knows records, tensors, classes of values, limits of dtypes, problems, and the small vocabulary that everybody shares
(options, languages, errors). Opens no file and judges nothing. Start at :mod:`firstnan.dump.records`.
"""
