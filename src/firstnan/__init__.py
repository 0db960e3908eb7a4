"""firstnan: which rank, which operator, which line of code turned the run to NaN."""

from firstnan.errors import FirstnanError, InputError, OutputError, UsageError
from firstnan.options import Options
from firstnan.pipeline import analyze, trace
from firstnan.report import Report

__all__ = [
    "FirstnanError",
    "InputError",
    "Options",
    "OutputError",
    "Report",
    "UsageError",
    "__version__",
    "analyze",
    "trace",
]

__version__ = "0.1.0"
