"""One dump.json in MSProbe's own layout, read once and parsed where it matters. Start at :mod:`.sweep`.

Whatever is laid out otherwise raises ``Doubt``, and the full reader takes over; both give the same records.
"""
