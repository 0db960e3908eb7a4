"""What a person typed.

Arguments in, report to stdout or a file, words for people to stderr, an exit code back. The only part of the package
that prints or exits. Start at :mod:`firstnan.cli.commands`, one file a command.
"""
