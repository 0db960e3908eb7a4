"""Which elements of a tensor are bad, the rows to run again, and the smallest input that still does it."""
