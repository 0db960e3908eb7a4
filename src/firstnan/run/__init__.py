"""Who does the work, and in which order.

:mod:`firstnan.run.pipeline` is the whole program in one screen: find, read each rank, match, spread, causes, report.
:mod:`firstnan.run.dispatch` gives the work on ranks to an engine (this process, a pool, a Ray cluster),
:mod:`firstnan.run.second_pass` asks single ranks again, :mod:`firstnan.run.two_stage` cuts the program in two for hosts
that do not see each other's files. Knows every floor below; shows and prints nothing.
"""
