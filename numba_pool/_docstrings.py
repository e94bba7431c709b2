"""Docstrings are put together here, so that the paragraph of an argument that many functions take is written once.

The docstring in the source has what is particular to a function; `documented` adds the rest. Arguments that it does not
mention have the paragraphs of `ARGUMENTS`. With ``padding : ...`` a line is added to the paragraph there; an entry with
a type stands instead of it. A layer has the paragraphs of its function.
"""

import inspect
from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

SHAPES = ("(N, C, *spatial) with 1 to 3 spatial axes",  # by rank, where 0 is for the array to say
          "(N, C, L) or (C, L)", "(N, C, H, W) or (C, H, W)", "(N, C, D, H, W) or (C, D, H, W)")

ARGUMENTS = {
    "x": """array, shape {shape}
    float32, float64, float16, bfloat16 or any integer type.""",
    "grad_output": """array of the output's shape
    Gradient with respect to the output.""",
    "input_shape": """tuple
    Shape of the forward's input.""",
    "indices": """int32 or int64 array of the same shape
    As returned by the forward; -1 is skipped.""",
    "kernel_size": """int or one int per spatial axis
    How long a window is along each axis.""",
    "stride": """int or one int per spatial axis, optional
    How far one window is from the next. None stands for the kernel size: windows that touch.""",
    "padding": """int, one int or (before, after) pair per axis, 'valid', 'same' or 'same_lower'
    An int is at most half of the kernel size, while pairs may be as large as one likes. 'same' gives as many
    windows as ``ceil(length / stride)``, and the odd element of padding to the end; 'same_lower' gives it to the
    beginning.""",
    "dilation": """int or one int per spatial axis
    How far one element of a window is from the next.""",
    "ceil_mode": """bool
    Keep a last window that hangs over the end.""",
    "output_size": """int or None, or one of them per spatial axis
    How many windows along each axis; they cover it, and may overlap. None keeps an axis.""",
    "return_indices": """bool
    Return ``(y, indices)``: int32, flat within each plane of `x`, row-major. Ties go to the first element; a NaN
    wins, the last of several; a window without any valid element has the index -1.""",
    "offsets": """array of integers, one more than there are segments
    Segment s has rows offsets[s] to offsets[s + 1] - 1. They never fall, and lie in [0, rows]; rows before the first
    and behind the last are in no segment.""",
    "nan_policy": """'propagate' or 'omit'
    With 'omit', NaN is an element that is missing: as if it lay outside of the array. A maximum, a minimum or an
    average of nothing is NaN then, and the index -1.""",
    "where": """array of bools that broadcasts against x, optional
    Elements are missing where it is False.""",
    "min_count": """int, optional
    Where elements may be missing, results of fewer elements are NaN, of integers 0. By default a sum needs none.""",
    "channel_axis": """int, optional
    Axis of the channels in all arrays and shapes of the call, -1 for NHWC; None stands for the axis before the
    spatial ones. Nothing is copied.""",
    "out": """array{or_pair}, optional
    Written and returned.""",
}
RETURNS = {  # by the argument that tells one kind of function from the next
    "return_indices": "y : array of x's dtype, or (y, indices)",
    "input_shape": "array of shape `input_shape` and grad_output's dtype",
    "": "array of x's dtype",
}
RAISES = """ValueError, TypeError
    For arguments out of range or of the wrong type, before anything is written."""

ORDER = "", "Parameters", "Returns", "Raises", "Notes", "Examples"  # of the sections


def names_of(function: Callable[..., Any]) -> tuple[str, ...]:
    """The names of a function's arguments."""
    code: Any = function.__code__
    names: tuple[str, ...] = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return names


def sections(text: str) -> dict[str, str]:
    """The sections of a docstring in NumPy's format by their titles; what comes before the first has none."""
    found, title = {}, ""
    for part in f"{text}\n".split("\n---"):
        body, _, following = part.rpartition("\n")
        found[title] = body.lstrip("-").strip()
        title = following
    return found


def entries(section: str) -> dict[str, str]:
    """The entries of a section about parameters, by their names."""
    found, name = dict[str, str](), ""
    for line in section.splitlines():  # the first pattern of a process takes 200 us to compile: that is longer
        if line and line[0] != " ":
            name = line.partition(" :")[0]
            found[name] = line
        else:
            found[name] += f"\n{line}"
    return found


def joined(found: dict[str, str]) -> str:
    """The docstring of such sections."""
    titles = sorted(found, key=ORDER.index)
    return "\n\n".join(f"{title}\n{'-' * len(title)}\n{found[title]}" if title else found[title] for title in titles)


@lru_cache(maxsize=1)  # one after the other, the functions of all ranks have the same
def completed(text: str, names: tuple[str, ...]) -> str:
    """A function's docstring with what it leaves to the tables, for its arguments."""
    found = sections(inspect.cleandoc(text))
    own = entries(found.get("Parameters", ""))
    keys = {name: key for key in own for name in key.split(", ")}  # an entry may be about several
    told = {}
    for name in names:
        key = keys.get(name, name)
        entry = own.get(key, f"{name} : ...")
        told[key] = entry.replace(" : ...", f" : {ARGUMENTS[name]}") if " : ..." in entry else entry
    found["Parameters"] = "\n".join(told.values())
    found.setdefault("Returns", next(returns for name, returns in RETURNS.items() if name in (*names, "")))
    found["Raises"] = f"{RAISES}\n{found.get('Raises', '')}".strip()
    return joined(found)


def documented(rank: int = 0, name: str = "", **words: str) -> Callable[[F], F]:
    """A decorator that completes a docstring. Words in braces stand for others: ``{pool}`` for the public name of the
    forward, ``{d}`` for 2d, ``{shape}`` for what `x` may be of, and those that are given.

    A function that is made for one spatial rank, or under another `name`, gets its public name, too, `pool` ->
    `pool2d`. A pickle names the public module: that whose file makes the function may have it under no name.
    """

    def complete(function: F) -> F:
        f: Any = function
        base, *rest = (name or f.__name__).partition("_backward")
        if rank:
            base, f.rank = f"{base}{rank}d", rank
        if rank or name:
            f.__name__ = f.__qualname__ = f"{base}{''.join(rest)}"
            f.__module__ = "numba_pool.functional"
        if f.__doc__:  # which `python -OO` leaves out
            names = names_of(f)
            or_pair = " or pair (y, indices)" if "return_indices" in names else ""
            f.__doc__ = completed(f.__doc__, names).format(pool=base, d=f"{rank}d", shape=SHAPES[rank], or_pair=or_pair,
                                                           **words)
        return function

    return complete
