"""Runs recorded operators again on the CPU, from the tensors of a ``task: tensor`` dump.

Start at :mod:`firstnan.replaying.record` (one record, one experiment), then :mod:`.names` (which operator),
:mod:`.tolerance` (when two results differ) and :mod:`.child` (why a crash ends nothing). These modules import torch and
are loaded in a child process only; the rest of the package never imports torch.
"""
