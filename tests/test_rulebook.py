"""Rules files: what they say about operators, how they are read, and how they change an answer."""

from __future__ import annotations

import math
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from analysis.made_runs import INF, NAN, Run, named, t
from firstnan.answer.model import Confidence, MechanismKind, Report, Verdict, Where
from firstnan.dump.errors import UsageError
from firstnan.dump.names import parse_name
from firstnan.operators import table
from firstnan.operators.table import Computes, OperatorKind, operator_label, short_api
from firstnan.run import lookups

BOOK = table.load()


def file(path: Path, *rules: str, head: str = "") -> Path:
    made = path / "rules.toml"
    made.write_text(head + "\n".join(f"[[rule]]\n{rule}\n" for rule in rules), encoding="utf-8")
    return made


def rule(name: str, kind: str, *ops: str, reason: str = "ours") -> str:
    quoted = ", ".join(f'"{op}"' for op in ops)
    return f'name = "{name}"\nkind = "{kind}"\nops = [{quoted}]\nreason = "{reason}"'


def test_patterns_name_what_fnmatch_says() -> None:
    patterns = [
        *dict.fromkeys(op for rule in BOOK.rules for op in rule.ops),
        "Torch.f?ll",
        "Tensor.[fz]*",
        "*.a*b",
        "*",
    ]
    labels = [pattern.replace("*", filling) for pattern in patterns for filling in ("", "x", "full.a")]
    for pattern in patterns:
        assert [table._is_named(label, pattern) for label in labels] == [
            fnmatchcase(label, pattern) for label in labels
        ]


@pytest.mark.parametrize(
    ("record", "kind"),
    [
        ("Torch.empty.0.forward", OperatorKind.INITIALISER),
        ("Torch.empty_like.3.forward", OperatorKind.INITIALISER),
        ("Tensor.new_zeros.0.forward", OperatorKind.INITIALISER),
        ("Tensor.zero_.0.forward", OperatorKind.INITIALISER),
        ("Tensor.to.0.forward", OperatorKind.CARRIER),
        ("Torch.reshape.0.forward", OperatorKind.CARRIER),
        ("Tensor.masked_fill_.9.forward", OperatorKind.MASK),
        ("Torch.where.0.forward", OperatorKind.MASK),
        ("Torch.where.0.forward", OperatorKind.SELECTOR),
        ("Torch.ops.aten.masked_fill_0_0", OperatorKind.MASK),
        ("Tensor.__setitem__.0.forward", OperatorKind.MASK),
        ("Torch.nan_to_num.0.forward", OperatorKind.SELECTOR),
        ("Torch.isnan.0.forward", OperatorKind.OBSERVER),
        ("Tensor.__gt__.0.forward", OperatorKind.OBSERVER),
        ("Tensor.narrow.0.forward", OperatorKind.BUFFER_VIEW),
        ("Functional.relu.0.forward", OperatorKind.SATURATOR),
        ("Mint.tanh.0.forward", OperatorKind.SATURATOR),
        ("Tensor.uniform_.0.forward", OperatorKind.SELECTOR),
        ("Tensor.moveaxis.0.forward", OperatorKind.CARRIER),
        ("Torch.greater_equal.0.forward", OperatorKind.OBSERVER),
        ("Functional.adaptive_max_pool2d.0.forward", OperatorKind.SATURATOR),
    ],
)
def test_what_the_packaged_rules_say(record: str, kind: OperatorKind) -> None:
    assert BOOK.is_(parse_name(record), kind)


@pytest.mark.parametrize("record", ["Functional.linear.0.forward", "Torch.exp2.0.forward", "Torch.log.0.forward"])
def test_ordinary_operators_have_no_rule(record: str) -> None:
    assert [kind for kind in OperatorKind if BOOK.is_(parse_name(record), kind)] == []


def test_modules_have_no_rule() -> None:
    assert BOOK.find(parse_name("Module.where.where.forward.0"), OperatorKind.SELECTOR) is None


def test_every_packaged_rule_says_why() -> None:
    assert all(rule.reason and rule.ops for rule in BOOK.rules)
    assert len({rule.name for rule in BOOK.rules}) == len(BOOK.rules)


@pytest.mark.parametrize(
    ("record", "label", "short"),
    [
        ("Tensor.masked_fill_.3.forward", "Tensor.masked_fill", "masked_fill"),
        ("Torch.ops.aten.masked_fill_0_0", "Torch.masked_fill", "masked_fill"),
        ("Torch.linalg.vector_norm.0.forward", "Torch.vector_norm", "vector_norm"),
        ("Torch.ops.aten.linalg_vector_norm_0_0", "Torch.vector_norm", "vector_norm"),
        ("Aten.special_xlogy.0.forward", "Aten.xlogy", "xlogy"),
        ("Tensor.__iadd__.0.forward", "Tensor.__iadd__", "__iadd__"),
        ("Primitive.matmul.MatMul.0.forward", "Primitive.MatMul", "MatMul"),
        ("_C_ascend.rms_norm.0.forward", "_C_ascend.rms_norm", "rms_norm"),
    ],
)
def test_how_rules_write_an_operator(record: str, label: str, short: str) -> None:
    name = parse_name(record)
    assert (operator_label(name), short_api(name)) == (label, short)


def test_a_file_adds_to_the_packaged_rules(tmp_path: Path) -> None:
    book = table.load(file(tmp_path, rule("house_masks", "mask", "Torch.fancy_bias")))
    assert book.is_(parse_name("Torch.fancy_bias.0.forward"), OperatorKind.MASK)
    assert book.is_(parse_name("Torch.where.0.forward"), OperatorKind.MASK)
    assert len(book.rules) == len(BOOK.rules) + 1


def test_a_rule_of_the_same_name_replaces(tmp_path: Path) -> None:
    book = table.load(file(tmp_path, rule("saturation", "saturator", "Torch.squash")))
    assert book.is_(parse_name("Torch.squash.0.forward"), OperatorKind.SATURATOR)
    assert not book.is_(parse_name("Torch.tanh.0.forward"), OperatorKind.SATURATOR)
    assert len(book.rules) == len(BOOK.rules)


def test_rules_in_force_can_be_written_and_read_again(tmp_path: Path) -> None:
    made = file(tmp_path, rule("quoted", "carrier", "A.*", reason='a \\"quoted\\" reason'))
    book = table.load(made)
    again = tmp_path / "again.toml"
    again.write_text(table.render(book), encoding="utf-8")
    assert (table.load(again).rules, table.load(again).operators) == (book.rules, book.operators)
    assert lookups.rules_text(None) == table.default_text()
    assert lookups.rules_text(made) == table.render(book)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[[rule", "not TOML"),
        ('schema = "other/1"', "schema"),
        ("rule = 3", "array of tables"),
        ("rule = [1]", "must be a table"),
        ("[[rule]]\nkind = 'mask'\nops = []\nreason = 'x'", "'name'"),
        ("[[rule]]\nname = 'a'\nkind = 'mask'\nops = 'x'\nreason = 'x'", "'ops'"),
        ("[[rule]]\nname = 'a'\nkind = 'mask'\nops = [1]\nreason = 'x'", "'ops'"),
        ("[[rule]]\nname = 'a'\nkind = 'mask'\nops = []", "'reason'"),
        ("[[rule]]\nname = 'a'\nkind = 'benign'\nops = []\nreason = 'x'", "'kind'"),
    ],
)
def test_a_file_of_another_form_is_refused_with_its_place(text: str, told: str, tmp_path: Path) -> None:
    made = tmp_path / "odd.toml"
    made.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=told) as caught:
        table.load(made)
    assert "odd.toml" in str(caught.value)


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        table.load(tmp_path / "absent.toml")
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="cannot be read"):
        table.load(binary)


# -- answers -------------------------------------------------------------------------------------------


def answered(run: Run, path: Path, *rules: str) -> Report:
    return run.analyze(path / "dump", rules=file(path, *rules) if rules else None)


def test_a_rule_makes_an_operator_a_mask(tmp_path: Path) -> None:
    run = Run()
    rank = run.rank(0)
    born = rank.op("Torch.fancy_bias", [t(1.0)], [t(-INF)])
    rank.op("Torch.softmax", [t(-INF)], [t(1.0, 0.0)])
    assert named(answered(run, tmp_path)) == []  # dropped by softmax
    rank.op("Torch.frob", [t(-INF)], [t(-INF, -INF, shape=())])
    assert named(answered(run, tmp_path)) == [(0, born)]
    report = answered(run, tmp_path, rule("house_masks", "mask", "Torch.fancy_bias"))
    assert named(report) != [(0, born)]
    assert ("house_masks", 1) in [(r.rule, r.count) for r in report.benign]


def test_a_rule_is_switched_off(tmp_path: Path) -> None:
    run = Run()
    rank = run.rank(0)
    born = rank.op("Tensor.masked_fill", [t(1.0)], [t(-INF)])
    rank.op("Torch.frob", [t(-INF)], [t(3.0, -INF)])
    assert answered(run, tmp_path).verdict is Verdict.CLEAN
    assert named(answered(run, tmp_path, rule("legal_minus_inf", "mask"))) == [(0, born)]


@pytest.mark.parametrize("kind", ["saturator", "selector"])
def test_a_rule_says_how_a_value_disappears(kind: str, tmp_path: Path) -> None:
    """NaN goes into ``squash`` and a finite value comes out, but its backward is bad: swallowed or dropped?"""
    run = Run()
    rank = run.rank(0)
    with rank.module("model", "Model", [t(1.0)], [t(1.0)]):
        born = rank.op("Torch.frob", [t(1.0)], [t(INF)])
        squash = rank.op("Torch.squash", [t(INF)], [t(1.0)])
    loss = rank.op("Torch.sum", [t(1.0)], [t(8.0, shape=())])
    rank.backward(loss, [t(1.0, shape=())], [t(1.0)])
    rank.backward(squash, [t(1.0)], [t(1.0)])
    rank.backward(born, [t(1.0)], [t(NAN)])
    report = answered(run, tmp_path, rule("ours", kind, "Torch.squash"))
    backward = born.replace("forward", "backward")
    assert named(report) == [(0, born if kind == "saturator" else backward)]


def test_a_rule_ignores_an_operator(tmp_path: Path) -> None:
    run = Run()
    rank = run.rank(0)
    rank.op("Torch.debug_print", [t(1.0)], [t(NAN)])
    assert answered(run, tmp_path).verdict is Verdict.ANOMALY
    assert answered(run, tmp_path, rule("ours", "ignored", "Torch.debug_*")).verdict is Verdict.CLEAN


def test_a_rule_makes_an_operator_an_initialiser(tmp_path: Path) -> None:
    run = Run()
    rank = run.rank(0)
    rank.op("Torch.arena", [4], [t(NAN)])
    report = answered(run, tmp_path, rule("arenas", "initialiser", "Torch.arena"))
    assert report.verdict is Verdict.CLEAN
    assert [(r.rule, r.count) for r in report.benign] == [("arenas", 1)]


def test_random_numbers_take_the_place_of_what_stood_there(tmp_path: Path) -> None:
    run = Run()
    rank = run.rank(0)
    rank.op("Tensor.normal_", [t(NAN), 0.0, 0.02], [t(0.06, -0.06)])
    rank.op("Torch.exp", [t(0.06, -0.06)], [t(1.06, 0.94)])
    report = run.analyze(tmp_path)
    assert report.verdict is Verdict.CLEAN
    assert report.complete


# --- what operators compute ----------------------------------------------------------------------------


def rules_file(path: Path, text: str) -> Path:
    made = path / "taught.toml"
    made.write_text(text, encoding="utf-8")
    return made


KERNEL = """
[operators.npu_new_matmul]
names = ["npu_new_matmul", "NewLinear"]
computes = ["product"]
weights = [1, 2]
bias = 2
domain = [0.0, inf]
"""


def test_a_file_teaches_what_an_operator_computes(tmp_path: Path) -> None:
    book = table.load(rules_file(tmp_path, KERNEL))
    for name in ("npu_new_matmul", "NewLinear"):
        assert book.computes(name, Computes.PRODUCT)
        assert not book.computes(name, Computes.SOFTMAX)
        assert (book.weights(name), book.domain(name)) == ((1, 2), (0.0, math.inf))
    assert book.computes("matmul", Computes.PRODUCT), "ours stay"
    assert book.added == ("npu_new_matmul",)
    assert table.parse(table.render(book)) == book


@pytest.mark.parametrize(
    ("api", "extra", "bad", "name"),
    [
        ("Torch.addmm", "", 0, "bias"),
        ("Torch.addmm", "", 2, "weight"),
        ("NPU.npu_ffn", "weights = [1, 2]", 2, "weight"),
        ("NPU.npu_ffn", "weights = [1, 2]\nbias = 2", 2, "bias"),
    ],
)
def test_a_bad_parameter_is_called_what_the_table_says(
    api: str, extra: str, bad: int, name: str, tmp_path: Path
) -> None:
    run = Run()
    inputs = [t(NAN, shape=(4, 4)) if at == bad else t(1.0, -1.0, (4, 4)) for at in range(3)]
    run.rank(0).op(api, inputs, [t(NAN, shape=(4, 4))])
    text = f'[operators.npu_ffn]\ncomputes = ["product"]\n{extra}\n'
    cause = run.analyze(tmp_path / "dump", rules=rules_file(tmp_path, text)).root_causes[0]
    assert cause.where is Where.PARAMETER
    assert name in {note.params.get("name") for note in (*cause.evidence, cause.mechanism.explanation)}


def test_a_bias_is_one_of_the_weights(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="'bias' must be one of"):
        table.load(rules_file(tmp_path, "[operators.x]\nweights = [1]\nbias = 2\n"))


def test_a_taught_operator_overrides_ours(tmp_path: Path) -> None:
    book = table.load(rules_file(tmp_path, '[operators.exp]\ncomputes = ["bounded"]\n'))
    assert not book.computes("exp", Computes.EXPONENTIAL)
    assert book.computes("exp2", Computes.EXPONENTIAL)


def test_a_taught_kernel_changes_the_answer_and_is_named_in_it(tmp_path: Path) -> None:
    """100 x 100 over 64 elements in float16: beyond 65504 for a product, nothing to say of an unknown kernel."""
    side = t(100.0, -100.0, (64, 64), "float16")
    run = Run()
    run.rank(0).op("NPU.npu_new_matmul", [side, side], [t(INF, shape=(64, 64), dtype="float16")])
    plain = run.analyze(tmp_path / "plain")
    taught = run.analyze(tmp_path / "taught", rules=rules_file(tmp_path, KERNEL))
    assert plain.root_causes[0].mechanism.confidence is not Confidence.CERTAIN
    assert taught.root_causes[0].mechanism.confidence is Confidence.CERTAIN
    assert "caveat.own_rules" in {note.key for note in taught.caveats}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("operators = 3", "'operators' must be a table"),
        ("[operators]\nx = 1", "operator x: must be a table"),
        ('[operators.x]\ncomputes = ["sorcery"]', "'computes' is"),
        ("[operators.x]\ncomputes = 1", "'computes' is"),
        ("[operators.x]\nnames = []", "'names' must be"),
        ('[operators.x]\nnames = ["NPU.x"]', "without prefix"),
        ('[operators."npu_*"]', "without prefix"),
        ("[operators.x]\nweights = [-1]", "'weights' must be"),
        ("[operators.x]\ndomain = [1.0]", "'domain' must be"),
        ('[operators.x]\nlike = "exp"', "like is not known"),
    ],
)
def test_an_operator_of_another_form_is_refused(text: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=says):
        table.load(rules_file(tmp_path, text))


def test_a_bound_proves_nothing_about_a_fused_kernel(tmp_path: Path) -> None:
    """It does more than its arguments say: an infinity may come from a tail or a workspace."""
    side = t(100.0, -100.0, (64, 64), "float16")
    run = Run()
    run.rank(0).op("NPU.npu_new_matmul", [side, side], [t(INF, shape=(64, 64), dtype="float16")])
    fused = KERNEL.replace('["product"]', '["product", "fused"]')
    cause = run.analyze(tmp_path / "dump", rules=rules_file(tmp_path, fused)).root_causes[0]
    assert (cause.mechanism.kind, cause.mechanism.confidence) == (MechanismKind.FP16_OVERFLOW, Confidence.LIKELY)
