"""Rules about operators as data: ``default.toml``, editable by users."""
