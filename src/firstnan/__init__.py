"""firstnan: which rank, which operator, which line of code turned the run to NaN."""

__version__ = "0.1.0"
