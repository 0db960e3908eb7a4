"""Who called a record and from which line: construct.json and stack.json, for single records."""
