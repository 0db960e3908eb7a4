"""What stands around a place of one rank, for whoever checks an answer: neighbours, the way up to an overflow."""
