"""The content of a report in the reader's words, before any layout: what text and Markdown share.

Start at :mod:`.sections` (which parts, in which order); :mod:`.model` has the building blocks.
"""
