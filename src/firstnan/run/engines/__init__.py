"""Where the work on one rank is done: this process, a pool of processes, a Ray cluster.

Start at :mod:`firstnan.run.engines.engine` (the one Protocol) and :mod:`.opening` (which engine for which options).
Ray lives in a process of its own (:mod:`.child_process`), since it ends the process that uses it when its node is lost.
"""
