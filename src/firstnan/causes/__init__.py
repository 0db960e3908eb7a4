"""Why it happened.

Takes the events that nothing explains and gives root causes: place, mechanism with its confidence, evidence, advice.
Start at :mod:`firstnan.causes.cause`; each mechanism has a room of its own in :mod:`firstnan.causes.mechanisms`.
"""
