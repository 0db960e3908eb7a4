"""Where the bytes of a dump come from: folders of this machine, archives, compressed files.

Knows files and how they are stored; nothing of what stands in them. Start at :mod:`firstnan.read.sources.places`: every
other part of the package opens and lists through it.
"""
