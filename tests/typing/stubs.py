"""Writes the stub files of numba_pool, which differ from rank to rank only by their sizes.

    python tests/typing/stubs.py

Functions are made by closures, one for every rank, which type checkers cannot see into. What a layer returns depends on
how it was built. Edit this file, never the stubs.
"""

import ast
import re
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "numba_pool"
WIDTH = 120

NOTE = "# Written by tests/typing/stubs.py: edit that.\n"

TYPES = '''
# A dtype that is kept. bfloat16 is unknown to type checkers (ml_dtypes calls it a `generic`): call its arrays
# NDArray[Any].
_Real: TypeAlias = np.floating[Any] | np.integer[Any]
_T = TypeVar("_T", bound=_Real)
_F = TypeVar("_F", bound=np.floating[Any])

class _RealArray(Protocol):
    def __array__(self) -> NDArray[_Real]: ...

class _FloatArray(Protocol):
    def __array__(self) -> NDArray[np.floating[Any]]: ...

# Lists of lists of numbers, of as many axes as may be. (Without an end they would be strings, too.)
_Nested1: TypeAlias = Sequence[float]
_Nested2: TypeAlias = Sequence[float | _Nested1]
_Nested3: TypeAlias = Sequence[float | _Nested2]
_Nested4: TypeAlias = Sequence[float | _Nested3]
_Nested: TypeAlias = Sequence[float | _Nested4]
_Like: TypeAlias = _Nested | _RealArray
_FloatLike: TypeAlias = _Nested | _FloatArray
_Int: TypeAlias = SupportsIndex
_Float: TypeAlias = float | _Real
_Indices: TypeAlias = NDArray[np.int32]
_AnyIndices: TypeAlias = NDArray[np.int32 | np.int64] | _Nested
_Shape: TypeAlias = tuple[_Int, ...] | list[int]
_Integers: TypeAlias = NDArray[np.integer[Any]] | Sequence[int]
_Seed: TypeAlias = np.random.Generator | np.random.BitGenerator | np.random.SeedSequence | int | Sequence[int]

_Pair: TypeAlias = tuple[_Int, _Int] | list[int]
_Side: TypeAlias = _Int | _Pair
_Named: TypeAlias = Literal["valid", "same", "same_lower"]
_Kept: TypeAlias = _Int | None
_Policy: TypeAlias = Literal["propagate", "omit"]
_Mask: TypeAlias = NDArray[np.bool_] | Sequence[Any] | bool
'''


def each(entry: str, rank: int, short: bool = True) -> str:
    """A tuple of one such entry per axis, or if `short` of one for all."""
    every = f"tuple[{', '.join([entry] * rank)}]"
    return f"tuple[{entry}] | {every}" if short and rank > 1 else every


def sizes() -> str:
    lines = []
    for r in (1, 2, 3):
        lines += [
            f"_Size{r}: TypeAlias = _Int | {each('_Int', r)} | list[int]",
            f"_Exact{r}: TypeAlias = _Int | {each('_Int', r, short=False)} | list[int]",
            f"_Stride{r}: TypeAlias = _Size{r} | tuple[()] | None",
            f"_Padding{r}: TypeAlias = _Int | {each('_Side', r)} | list[int] | list[tuple[int, int]] | _Named",
            f"_Output{r}: TypeAlias = _Int | {each('_Kept', r)} | list[int] | list[int | None] | None",
            f"_Ratio{r}: TypeAlias = _Float | {each('_Float', r, short=False)} | list[float]",
            f"_Unpooled{r}: TypeAlias = _Exact{r} | {each('_Int', r + 1, False)} | {each('_Int', r + 2, False)}",
        ]
    return "\n".join(lines) + "\n"


def lines() -> dict[str, str]:
    """What the table in the package's docstring says of every function: editors show it, who find no other text."""
    docstring = ast.get_docstring(ast.parse((PACKAGE / "__init__.py").read_text())) or ""
    rows = dict(re.findall(r"^``(\S+)``  +(\S.*)$", docstring, re.MULTILINE))
    return {re.sub(r"\{.*?\}d?", f"{rank}d", name): line for name, line in rows.items() for rank in (1, 2, 3)}


LINES = lines()


def define(name: str, parameters: str, result: str, indent: str = "", overload: bool = False) -> str:
    """A function of so many parameters, which are separated by ';'."""
    given = [p.strip() for p in parameters.split(";") if p.strip()]
    text = f"{indent}def {name}({', '.join(given)}) -> {result}: ..."
    if len(text) > WIDTH:
        text = f"{indent}def {name}(\n" + "".join(f"{indent}    {p},\n" for p in given) + f"{indent}) -> {result}: ..."
    forward = name.removesuffix("_backward")
    if forward in LINES:
        line = LINES.get(name, f"Gradient of `{forward}`.")
        text = text.removesuffix(" ...") + f'\n    """{line}"""'
    return (f"{indent}@overload\n" if overload else "") + text + "\n"


PAIR, ONE_OF = "tuple[{0}, _Indices]", "{0} | tuple[{0}, _Indices]"
AXIS = "channel_axis: int | None = None"
POLICY = 'nan_policy: _Policy = "propagate"'
MISSING = f"{POLICY}; where: _Mask | None = None"
COUNTED = f"{MISSING}; min_count: _Int | None = None"
OF_COUNTED = f"{COUNTED}; x: _FloatLike | None = None"
FEWEST = f"{POLICY}; min_count: _Int | None = None"


def indexed(name: str, before: str, after: str) -> str:
    """A forward whose result is an array, or a pair with `return_indices`, which stands behind `before`.

    `after` are the keywords, with {out} for the type of `out=` where there is one.
    """
    text, own = [], "NDArray[_T]"
    needed = before.replace(" = None", "").replace(" = 0", "").replace(" = 1", "").replace(" = False", "")
    for x, y in ((own, own), ("_Like", "NDArray[Any]")):
        one, two = f"{y} | None", f"{PAIR.format(y)} | None"
        text.append(define(name, f"x: {x}; {before}; return_indices: Literal[False] = False; *; "
                           + after.format(out=one), y, overload=True))
        if needed == before:  # all that stands before it has to be given
            text.append(define(name, f"x: {x}; {before}; return_indices: Literal[True]; *; " + after.format(out=two),
                               PAIR.format(y), overload=True))
            continue
        text.append(define(name, f"x: {x}; {before}; *; return_indices: Literal[True]; " + after.format(out=two),
                           PAIR.format(y), overload=True))
        if x == own:
            text.append(define(name, f"x: {x}; {needed}; return_indices: Literal[True]; *; " + after.format(out=two),
                               PAIR.format(y), overload=True))
    # Without out=: it would have to be either, and a wrong one of the other calls would be right here.
    text.append(define(name, f"x: _Like; {before}; return_indices: bool = False; *; " + after.format(out="None"),
                       ONE_OF.format("NDArray[Any]"), overload=True))
    return "".join(text)


def like(dtype: str) -> str:
    """What NumPy makes an array of such a dtype of."""
    return "_Like" if dtype == "_T" else "_FloatLike"


def kept(name: str, array: str, rest: str, dtype: str = "_T") -> str:
    """A function whose result has the dtype of its first argument."""
    return "".join(define(name, f"{array}: {x}; {rest.format(out=f'{y} | None')}", y, overload=True)
                   for x, y in ((f"NDArray[{dtype}]", f"NDArray[{dtype}]"), (like(dtype), "NDArray[Any]")))


def functions() -> dict[str, str]:
    """All of them, in the order of families."""
    found: dict[str, str] = {}

    def of_indices(name: str) -> None:
        found[name] = kept(name, "grad_output",
                           f"indices: _AnyIndices; input_shape: _Shape; *; {MISSING}; {AXIS}; out: {{out}} = None")

    for r in (1, 2, 3):
        windows = f"kernel_size: _Size{r}; stride: _Stride{r} = None"
        padding, dilation = f"padding: _Padding{r} = 0", f"dilation: _Size{r} = 1"
        ceil, out = "ceil_mode: bool = False", f"{AXIS}; out: {{out}} = None"
        for extreme in ("max", "min"):
            name = f"{extreme}_pool{r}d"
            found[name] = indexed(name, f"{windows}; {padding}; {dilation}; {ceil}", f"{MISSING}; {out}")
            of_indices(f"{name}_backward")
        divisors = "count_include_pad: bool = True; divisor_override: _Float | None = None"
        for name, rest in ((f"avg_pool{r}d", f"{ceil}; {divisors}"), (f"sum_pool{r}d", ceil)):
            arguments = f"{windows}; {padding}; {rest}; *; {dilation}"
            found[name] = kept(name, "x", f"{arguments}; {COUNTED}; {out}")
            found[f"{name}_backward"] = kept(f"{name}_backward", "grad_output",
                                             f"input_shape: _Shape; {arguments}; {OF_COUNTED}; {out}", "_F")
        name, norm = f"lp_pool{r}d", f"norm_type: _Float; {windows}; {ceil}; *; {padding}; {dilation}; {out}"
        found[name] = kept(name, "x", norm, "_F")
        found[f"{name}_backward"] = kept(f"{name}_backward", "grad_output", f"x: _FloatLike; y: _FloatLike; {norm}",
                                         "_F")
        name = f"adaptive_max_pool{r}d"
        found[name] = indexed(name, f"output_size: _Output{r}", f"{MISSING}; {out}")
        of_indices(f"{name}_backward")
        name = f"adaptive_avg_pool{r}d"
        found[name] = kept(name, "x", f"output_size: _Output{r}; *; {COUNTED}; {out}")
        found[f"{name}_backward"] = kept(f"{name}_backward", "grad_output",
                                         f"input_shape: _Shape; *; {OF_COUNTED}; {out}", "_F")
        if r > 1:
            name = f"fractional_max_pool{r}d"
            drawn = "random_samples: NDArray[np.floating[Any]] | _Nested | None = None; rng: _Seed | None = None"
            size = f"output_size: _Exact{r} | None = None; output_ratio: _Ratio{r} | None = None"
            found[name] = indexed(name, f"kernel_size: _Exact{r}; {size}", f"{drawn}; {out}")
            of_indices(f"{name}_backward")
        name = f"max_unpool{r}d"
        found[name] = kept(name, "x", f"indices: _AnyIndices; {windows}; padding: _Size{r} = 0; "
                           f"output_size: _Unpooled{r} | None = None; *; {out}")
        found[f"{name}_backward"] = kept(f"{name}_backward", "grad_output", f"indices: _AnyIndices; *; {out}")
    for extreme in ("max", "min"):
        name = f"global_{extreme}_pool"
        found[name] = indexed(name, "", f"{MISSING}; {AXIS}")
        found[f"{name}_backward"] = kept(f"{name}_backward", "grad_output",
                                         f"indices: _AnyIndices; input_shape: _Shape; *; {MISSING}; {AXIS}")
    for total in ("avg", "sum"):
        name = f"global_{total}_pool"
        found[name] = kept(name, "x", f"*; {COUNTED}; {AXIS}")
        found[f"{name}_backward"] = kept(f"{name}_backward", "grad_output",
                                         f"input_shape: _Shape; *; {OF_COUNTED}; {AXIS}", "_F")
    for extreme in ("max", "min"):
        name = f"segment_{extreme}_pool"
        found[name] = indexed(name, "offsets: _Integers", f"{MISSING}; out: {{out}} = None")
        found[f"{name}_backward"] = kept(f"{name}_backward", "grad_output",
                                         "indices: _AnyIndices; input_shape: _Shape; *; out: {out} = None")
    for total in ("avg", "sum"):
        name = f"segment_{total}_pool"
        found[name] = kept(name, "x", f"offsets: _Integers; *; {MISSING}; out: {{out}} = None")
        found[f"{name}_backward"] = kept(
            f"{name}_backward", "grad_output",
            f"offsets: _Integers; input_shape: _Shape; *; {MISSING}; x: _FloatLike | None = None; out: {{out}} = None",
            "_F")
    found["segment_offsets"] = define(
        "segment_offsets",
        "*; lengths: _Integers | None = None; ids: _Integers | None = None; count: _Int | None = None",
        "NDArray[np.int64]")
    return found


def functional() -> str:
    found = functions()
    listed = "".join(f'    "{name}",\n' for name in sorted([*found, "output_shape"]))
    return (NOTE + "from collections.abc import Callable, Sequence\n"
            "from typing import Any, Literal, Protocol, SupportsIndex, TypeAlias, TypeVar, overload\n\n"
            "import numpy as np\nfrom numpy.typing import NDArray\n"
            + TYPES + "\n" + sizes() + "\n" + "".join(found.values()) + SHAPES + f"\n__all__ = [\n{listed}]\n")


LAYER = '''
class Layer:
    training: bool
    channel_axis: int | None
    def train(self, mode: bool = True) -> Self: ...
    def eval(self) -> Self: ...
    def parameters(self) -> list[NDArray[Any]]: ...

class _Average(Layer):
{average}
class _FloatPool(Layer):
{floats}
class _Maximum(Layer, Generic[_Indexed]):
    return_indices: bool
{maximum}
class _Unpool(Layer):
{unpool}
class _Segments(Layer):
{segments}
class _SegmentMaximum(Layer, Generic[_Indexed]):
    return_indices: bool
{segment_maximum}'''


def methods(name: str, variants: list[tuple[str, str]]) -> str:
    several = len(variants) > 1
    return "".join(define(name, parameters, result, "    ", several) for parameters, result in variants)


def layer_classes() -> str:
    def calls(variants: list[tuple[str, str]], dtype: str) -> str:
        back = [(f"self; grad_output: NDArray[{dtype}]", f"NDArray[{dtype}]"),
                (f"self; grad_output: {like(dtype)}", "NDArray[Any]")]
        return methods("forward", variants) + methods("__call__", variants) + methods("backward", back)

    def simple(dtype: str, more: str = "") -> list[tuple[str, str]]:
        return [(f"self; x: NDArray[{dtype}]{more}", f"NDArray[{dtype}]"),
                (f"self; x: {like(dtype)}{more}", "NDArray[Any]")]

    mask = "; *; where: _Mask | None = None"

    def pairs(name: str, more: str) -> list[tuple[str, str]]:
        return [(f"self: {name}[{i}]; x: {x}{more}{mask}", result.format(y))
                for i, result in (("Literal[False]", "{0}"), ("Literal[True]", PAIR), ("bool", ONE_OF))
                for x, y in (("NDArray[_T]", "NDArray[_T]"), ("_Like", "NDArray[Any]"))]

    offsets = "; offsets: _Integers"
    unpool = "; indices: _AnyIndices; output_size: _Shape | _Int | None = None"
    return LAYER.format(average=calls(simple("_T", mask), "_T"), floats=calls(simple("_F"), "_F"),
                        maximum=calls(pairs("_Maximum", ""), "_T"), unpool=calls(simple("_T", unpool), "_T"),
                        segments=calls(simple("_T", offsets + mask), "_T"),
                        segment_maximum=calls(pairs("_SegmentMaximum", offsets), "_T"))


def built(name: str, base: str, arguments: str) -> str:
    """A layer of these arguments, which are its attributes; a maximum is of one type with return_indices, of another
    without.
    """
    given = [p.split(" = ")[0].strip() for p in arguments.split(";") if ":" in p]
    head = f"\nclass {name}({base}):\n" + "".join(f"    {p}\n" for p in given if not p.startswith("channel_axis"))
    if "_Indexed" not in base:
        return head + define("__init__", f"self; {arguments}", "None", "    ")
    return head + "".join(
        define("__init__", f"self: {name}[{kind}]; {arguments.format(indexed=given)}", "None", "    ", True)
        for kind, given in (("Literal[False]", "return_indices: Literal[False] = False"),
                            ("Literal[True]", "return_indices: Literal[True]"),
                            ("bool", "return_indices: bool = False")))


def layers() -> tuple[str, list[str]]:
    """The stub, and the names of all layers."""
    found: dict[str, str] = {}
    for r in (1, 2, 3):
        windows = f"kernel_size: _Size{r}; stride: _Stride{r} = None; padding: _Padding{r} = 0"
        dilation, ceil = f"dilation: _Size{r} = 1", "ceil_mode: bool = False"
        for extreme in ("Max", "Min"):
            found[f"{extreme}Pool{r}d"] = built(f"{extreme}Pool{r}d", "_Maximum[_Indexed]",
                                               f"{windows}; *; {dilation}; {ceil}; {{indexed}}; {POLICY}; {AXIS}")
        divisors = "count_include_pad: bool = True; divisor_override: _Float | None = None"
        found[f"AvgPool{r}d"] = built(f"AvgPool{r}d", "_Average",
                                     f"{windows}; *; {ceil}; {divisors}; {dilation}; {FEWEST}; {AXIS}")
        found[f"SumPool{r}d"] = built(f"SumPool{r}d", "_Average",
                                     f"{windows}; *; {ceil}; {dilation}; {FEWEST}; {AXIS}")
        found[f"LPPool{r}d"] = built(f"LPPool{r}d", "_FloatPool",
                                     f"norm_type: _Float; {windows}; *; {ceil}; {dilation}; {AXIS}")
        found[f"AdaptiveMaxPool{r}d"] = built(f"AdaptiveMaxPool{r}d", "_Maximum[_Indexed]",
                                             f"output_size: _Output{r}; *; {{indexed}}; {POLICY}; {AXIS}")
        found[f"AdaptiveAvgPool{r}d"] = built(f"AdaptiveAvgPool{r}d", "_Average",
                                             f"output_size: _Output{r}; *; {FEWEST}; {AXIS}")
        if r > 1:
            drawn = "random_samples: NDArray[np.floating[Any]] | _Nested | None = None; rng: _Seed | None = None"
            found[f"FractionalMaxPool{r}d"] = built(
                f"FractionalMaxPool{r}d", "_Maximum[_Indexed]",
                f"kernel_size: _Exact{r}; output_size: _Exact{r} | None = None; *; "
                f"output_ratio: _Ratio{r} | None = None; {{indexed}}; {drawn}; {AXIS}")
        found[f"MaxUnpool{r}d"] = built(
            f"MaxUnpool{r}d", "_Unpool", f"kernel_size: _Size{r}; stride: _Stride{r} = None; padding: _Size{r} = 0; *; "
            f"output_size: _Unpooled{r} | None = None; {AXIS}")
    for extreme in ("Max", "Min"):
        name = f"Global{extreme}Pool"
        found[name] = built(name, "_Maximum[_Indexed]", f"*; {{indexed}}; {POLICY}; {AXIS}")
    for total in ("Avg", "Sum"):
        found[f"Global{total}Pool"] = built(f"Global{total}Pool", "_Average", f"*; {FEWEST}; {AXIS}")
    for extreme in ("Max", "Min"):
        name = f"Segment{extreme}Pool"
        found[name] = built(name, "_SegmentMaximum[_Indexed]", f"*; {{indexed}}; {POLICY}")
    for total in ("Avg", "Sum"):
        found[f"Segment{total}Pool"] = built(f"Segment{total}Pool", "_Segments", f"*; {POLICY}")
    text = layer_classes() + "".join(found.values())
    names = (n for line in (TYPES + sizes()).splitlines() if (n := line.split(":")[0].split(" =")[0]).startswith("_"))
    imported = "".join(f"    {name},\n" for name in sorted({*names}, key=lambda n: (not n.isupper(), n))
                       if any(f"{name}{end}" in text for end in " ]),;\n"))
    return (NOTE + "from typing import Any, Generic, Literal, Self, overload\n\n"
            "import numpy as np\nfrom numpy.typing import NDArray\nfrom typing_extensions import TypeVar\n\n"
            f"from ..functional import (\n{imported})\n\n"
            "# Whether forward returns indices, too.\n"
            '_Indexed = TypeVar("_Indexed", bound=bool, default=Literal[False])\n' + text), sorted(found)


SHAPES = """
def output_shape(function: Callable[..., Any], shape: _Shape, *args: Any, **kwargs: Any) -> tuple[int, ...]: ...
"""

RUNTIME = '''
__version__: str

class Plan:
    shape: tuple[int, ...]
    output_shape: tuple[int, ...]
    dtype: np.dtype[Any]

class Explanation:
    function: str
    kernel: str
    does: str
    rule: str
    memory: str
    units: int
    threads: int
    reason: str
    table_bytes: int
    compiled: str
    parts: tuple[str, ...]

def plan(
    function: Callable[..., Any],
    shape: _Shape,
    dtype: DTypeLike,
    *args: Any,
    channel_axis: int | None = None,
    **kwargs: Any,
) -> Plan: ...
def run(plan: Plan, x: NDArray[Any], out: NDArray[Any], indices: NDArray[np.int32] | None = None) -> None: ...
def run_backward(plan: Plan, grad_output: NDArray[Any], *arrays: NDArray[Any]) -> None: ...
def explain(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Explanation: ...
@overload
def show_config(mode: Literal["stdout"] = "stdout") -> None: ...
@overload
def show_config(mode: Literal["dicts"]) -> dict[str, dict[str, Any]]: ...
def warmup(*arrays_or_dtypes: NDArray[Any] | DTypeLike, progress: bool = False) -> None: ...
def set_num_threads(n: _Int) -> None: ...
def get_num_threads() -> int: ...
def threads(n: _Int) -> AbstractContextManager[None]: ...
def empty_pool() -> None: ...
'''
# What is typed where it is defined: `coarsen` and what belongs to it.
BLOCKS = ("coarsen", "pyramid", "pyramid_block", "pyramid_regions")
RUNTIME_NAMES = ("__version__", "plan", "run", "run_backward", "explain", "show_config", "warmup",
                 "set_num_threads", "get_num_threads", "threads", "empty_pool")


def package() -> str:
    _, classes = layers()
    pools = sorted([*functions(), "output_shape"])
    listed = "".join(f'    "{name}",\n' for name in sorted([*classes, *pools, *BLOCKS, "reducers", *RUNTIME_NAMES]))
    return (NOTE + "from collections.abc import Callable\nfrom contextlib import AbstractContextManager\n"
            "from typing import Any, Literal, overload\n\n"
            "import numpy as np\nfrom numpy.typing import DTypeLike, NDArray\n\n"
            "from . import functional as functional\nfrom . import layers as layers\n"
            "from . import reducers as reducers\n"
            f"from .blocks import {', '.join(BLOCKS)}\n"
            "from .functional import (\n    _Int,\n    _Shape,\n" + "".join(f"    {name},\n" for name in pools) + ")\n"
            "from .layers import (\n" + "".join(f"    {name},\n" for name in classes) + ")\n"
            + RUNTIME + f"\n__all__ = [\n{listed}]\n")


def stubs() -> dict[Path, str]:
    return {PACKAGE / "functional/__init__.pyi": functional(), PACKAGE / "layers/__init__.pyi": layers()[0],
            PACKAGE / "__init__.pyi": package()}


if __name__ == "__main__":
    for path, text in stubs().items():
        path.write_text(text)
