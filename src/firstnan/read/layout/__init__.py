"""Which steps, ranks and files are there, and which are not. Start at :mod:`.dump_layout`."""
