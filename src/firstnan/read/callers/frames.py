"""Stack frames as the dumping tool writes them, and which of them is the user's line of code."""

from __future__ import annotations

import re

from firstnan.dump.call_site import Frame

Stack = tuple[str | int | float | None, ...]

FRAMEWORK_PATHS: tuple[tuple[str, str], ...] = (
    (r"/(?:site|dist)-packages/(?:torch|torch_npu|mindspore|mindtorch|msadapter)/", "the framework as installed"),
    (r"/torch/(?:nn|_\w+|ao|amp|autograd|cuda|distributed|fx|jit|optim|utils)/", "PyTorch built from source"),
    (r"/torch/(?:functional|_tensor|_ops|_jit_internal)\.py$", "PyTorch built from source"),
    (r"/torch_npu/(?:npu|utils|optim|distributed|contrib|_\w+)/", "PyTorch's Ascend adapter built from source"),
    (r"/mindspore/python/mindspore/", "MindSpore built from source"),
    (r"/(?:msprobe|atat)/(?:core|pytorch|mindspore|common)/", "the dumping tool"),
    (r"/lib/python3[\w.]*/(?!(?:site|dist)-packages/)", "the standard library (contextlib, functools, threading)"),
    (r"^<(?:string|frozen [^>]*|eval_with_key[^>]*)>", "generated code"),
    (r"/megatron/core/transformer/module\.py$", "Megatron: the wrapper that casts to half precision"),
    (r"/megatron/core/distributed/", "Megatron: data-parallel wrappers"),
    (r"/megatron/core/tensor_parallel/(?:mappings|random|utils)\.py$", "Megatron: collectives, checkpointing"),
    (r"/megatron/core/(?:jit|utils|parallel_state)\.py$", "Megatron: helpers"),
    (r"/mindspeed/(?:patch_utils|utils|wrapper)\.py$", "MindSpeed: the functions that replace Megatron's"),
    (r"/deepspeed/(?:runtime|utils|comm)/", "DeepSpeed: engine and communication"),
    (r"/accelerate/(?:accelerator\.py$|utils/)", "Accelerate: wrappers around forward"),
    (r"/transformers/utils/generic\.py$", "Transformers: decorators around forward"),
    (r"/peft/(?:peft_model\.py$|tuners/tuners_utils\.py$)", "PEFT: model wrappers"),
)
"""Code between the user's line and the recorded call: pattern of the path, and why it is passed over.
Layers of a training framework (``megatron/core/tensor_parallel/layers.py``) are not here: they are
where a reader wants to land."""

_FRAMEWORK = re.compile("|".join(f"(?:{pattern})" for pattern, _ in FRAMEWORK_PATHS))
_TOOL = re.compile(r"/(?:msprobe|atat)/(?:core|pytorch|mindspore|common)/")
_CALL = r"(?:return |yield |[\w.]{1,80} = )?(?:await )?[\w.]{1,200}\("
_HANDS_ON_ALL = re.compile(_CALL + r"(?:[\w.]{1,80}, ?){0,8}\*\w{1,80}(?:, ?\*\*\w{1,80})?,?\)$")
"""``return f(*args)``, ``out = f(self, *args, **kwargs)``."""
_ONE_CALL = re.compile(_CALL + r"(?:[\w.]{1,80}(?:, ?|(?=\)))){0,8}\)$")
"""``return self.inner(x)``: one call of names alone."""
_LONGEST_PATH = 4096


def as_stack(raw: list[object]) -> Stack | None:
    """A stack as written, when it holds nothing but texts and numbers."""
    found = []
    for item in raw:
        if item is not None and not isinstance(item, (str, int, float)):
            return None
        found.append(item)
    return tuple(found)


def frames_of(stack: Stack) -> tuple[Frame, ...]:
    r"""The frames of a stack, innermost first.

    Two forms: one text per frame (dump format, section 10), and the hand-made form that has
    function, file and line (section 14). Texts that are no frame are left out.

    >>> frames_of(("File /a/b.py, line 14, in forward, \n h = F.gelu(x)",))
    (Frame(file='/a/b.py', line=14, function='forward', source='h = F.gelu(x)'),)
    >>> frames_of(("linear", "forward.py", 123))
    (Frame(file='forward.py', line=123, function='linear', source=''),)
    """
    if len(stack) == 3 and isinstance(stack[0], str) and isinstance(stack[1], str) and type(stack[2]) is int:
        return (Frame(stack[1], stack[2], stack[0], ""),)
    frames = (_frame(item) for item in stack if isinstance(item, str))
    return tuple(frame for frame in frames if frame is not None)


def _frame(text: str) -> Frame | None:
    head, _, source = text.partition("\n")
    head = head.strip()
    if not head.startswith("File "):
        return None
    file, found, rest = head[5:].rpartition(", line ")
    if not found:
        return Frame(head[5:].rstrip(" ,").strip('"'), None, "", source.strip())
    number, _, function = rest.partition(", in ")
    line = int(number) if number.isascii() and number.isdigit() and len(number) < 10 else None
    return Frame(file.strip('"'), line, function.rstrip(" ,"), source.strip())


def location_of(frames: tuple[Frame, ...], api: str = "") -> Frame | None:
    """The first frame outside the framework; the innermost outside the dumping tool where all are inside.

    A frame that hands on whatever it was given (``return f(*args, **kw)``: a decorator, a hook) says nothing of the
    operator: where one further out says more, it is passed over, unless it calls the operator by its name (``api``).

    >>> torch = Frame("/opt/site-packages/torch/nn/functional.py", 9, "gelu", "")
    >>> location_of((torch, Frame("/train/mlp.py", 31, "forward", ""))).file
    '/train/mlp.py'
    >>> location_of((torch,)).function
    'gelu'
    """
    own = _own(frames)
    if own:
        return next((f for f in own if not _HANDS_ON_ALL.match(f.source) or _calls(f, api)), own[0])
    outside = (frame for frame in frames if not _TOOL.search(_slashed(frame.file)))
    return next(outside, frames[0] if frames else None)


def caller_of(location: Frame | None, frames: tuple[Frame, ...], api: str = "") -> Frame | None:
    """The next line of the user's code around the location, where that line only calls another module or function
    (and not the operator itself, ``api``).

    >>> thin = Frame("/train/wrap.py", 5, "forward", "return self.inner(x)")
    >>> caller_of(thin, (thin, Frame("/train/mlp.py", 31, "forward", "h = self.wrap(x * scale)"))).line
    31
    """
    if location is None or not _ONE_CALL.match(location.source) or _calls(location, api):
        return None
    own = _own(frames)
    further = own[own.index(location) + 1 :] if location in own else ()
    return next((frame for frame in further if not _HANDS_ON_ALL.match(frame.source)), None)


def _calls(frame: Frame, api: str) -> bool:
    """Whether the line calls the operator by its name."""
    return bool(api) and f"{api.rpartition('.')[2]}(" in frame.source


def _own(frames: tuple[Frame, ...]) -> tuple[Frame, ...]:
    """The frames outside the framework."""
    return tuple(frame for frame in frames if not _FRAMEWORK.search(_slashed(frame.file)))


def _slashed(path: str) -> str:
    return path[:_LONGEST_PATH].replace("\\", "/")
