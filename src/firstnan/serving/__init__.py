"""What other programs ask for: five narrow tools over the Python API, and a server of the Model Context Protocol.

Knows how to answer, not how to find out. :mod:`firstnan.serving.tools` needs no package; :mod:`firstnan.serving.server`
is the one place that knows the SDK (extra ``firstnan[mcp]``).
"""
