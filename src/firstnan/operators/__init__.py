"""What is known about operators, as data.

``operators.toml`` says what each computes and how it treats bad values; :mod:`firstnan.operators.table` asks it.
:mod:`firstnan.operators.bounds` tells the largest result that arithmetic allows,
:mod:`firstnan.operators.communication` which argument of a communication call is an input and which a result. Knows
single records, no rank and no file. ``known_issues.toml`` lists faults of other projects and how a
report shows them (:mod:`firstnan.operators.known_issues`).
"""
