"""Record a training step in MSProbe's format, and run a step again when it turned to NaN or Inf.

Start with ``guard.py`` (what happens around every step), then ``recorder.py`` (what one recorded step holds).
This package knows PyTorch and the files that MSProbe writes. It knows nothing of the analysis: it calls
``firstnan analyze`` in a process of its own, as a person would.
"""
