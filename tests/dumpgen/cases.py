"""The table of cases, put together."""

from __future__ import annotations

from cases_backward import BACKWARD
from cases_clean import CLEAN
from cases_forward import FORWARD
from cases_loss import LOSS
from cases_lowp import LOW_PRECISION
from cases_parallel import PARALLEL
from cases_state import STATE
from spec import Case

CASES: tuple[Case, ...] = FORWARD + LOSS + BACKWARD + STATE + PARALLEL + LOW_PRECISION + CLEAN
