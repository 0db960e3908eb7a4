"""What ``--redact`` takes out, and what it leaves."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from firstnan.dump.problems import Problem, ProblemKind
from firstnan.report.redaction import redact, redact_text
from firstnan.show.json import to_dict
from reporters.sample_reports import ANOMALY


def test_no_source_line_and_no_folder_is_left() -> None:
    hidden = replace(
        ANOMALY,
        input=replace(
            ANOMALY.input,
            problems=(Problem(ProblemKind.UNREADABLE, detail="Permission denied: '/home/ann/dump/x.json'"),),
        ),
    )
    made = json.dumps(to_dict(redact(hidden)))
    for secret in ("torch.exp(self.gate", "/workspace", "/opt/venv", "/data/run", "/home", "/ann"):
        assert secret not in made


def test_what_answers_the_question_stays() -> None:
    cause = redact(ANOMALY).root_causes[0]
    assert cause.op_name == "Torch.exp.0.forward"
    assert cause.location is not None
    assert (cause.location.file, cause.location.line, cause.location.source) == ("model.py", 88, "")
    assert cause.stack_info[0] == "File model.py, line 88, in forward"
    assert cause.outputs == ANOMALY.root_causes[0].outputs


@pytest.mark.parametrize(
    ("raw", "kept"),
    [
        ("/home/ann/run", "run"),
        ("/home/ann/run/", "run"),
        (r"\\server\share\run", "run"),
        ("~ann/run/x.py:3", "x.py:3"),
        ("file:///home/ann/x.py", "x.py"),
        ("step0/rank1/dump.json", "step0/rank1/dump.json"),
        ("../run", "run"),
        ("../../secret, project/run", "run"),
        ("/home/ann's/run", "run"),
        ("/home/a,b/c|d/run", "run"),
        ('/home/the "secret"/run', "run"),
        ("/home/ann: mine/run", "run"),
        ("$HOME/secret/run", "run"),
        ("${WORK}/secret/run", "run"),
        (r"%USERPROFILE%\secret\run", "run"),
        ("hdfs://store:9000/user/ann/run", "run"),
        ("s3://bucket/ann/run", "run"),
        ("File /home/ann, bob/x.py, line 3, in f", "File x.py, line 3, in f"),
        ("/data/ann/run, /home/bob/run2", "run, run2"),
        ("no dump at '/data/ann/run' and '/home/bob/run2'", "no dump at 'run' and 'run2'"),
        ("(/data/ann/a.py|/home/bob/b.py)", "(a.py|b.py)"),
        ("a / b", "a / b"),
        ("Max/Min", "Max/Min"),
        ("", ""),
        ("Tensor.__truediv__.0.forward", "Tensor.__truediv__.0.forward"),
    ],
)
def test_absolute_paths_are_cut_down_to_their_last_part(raw: str, kept: str) -> None:
    assert redact_text(raw) == kept


def test_hostile_text_takes_bounded_work() -> None:
    for part in ("~", "/ ", "/a", "~/", "\\", "C:"):
        assert len(redact_text(part * 50_000)) <= 100_000
