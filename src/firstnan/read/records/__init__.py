"""One dump.json whole: its values, its records. Start at :mod:`.full_reader`."""
