"""One room per mechanism: ``<kind>.py``.

The docstring of a room is its documentation page, its tests carry :func:`.registry.tried`, which says behind which
other test they are tried. A new mechanism is a file here, a member of
:class:`~firstnan.answer.model.MechanismKind`, its words in ``words/en`` and ``words/zh``, and an example in
``examples/small``. Start at :mod:`.registry`.
"""
