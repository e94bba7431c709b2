"""What the default run takes of all tests: a kernel takes seconds to compile for every dtype.

Of a test with parameters it takes as many cases as are needed for every value of every parameter to come once, and of
the dtypes float32 and one other. `pytest --exhaustive` takes all.
"""

import itertools

import numpy as np

exhaustive = False  # set by `conftest`

# The dtype that stands for those that are not float32: the first of these that a test has. Halves are widened and
# rounded; bytes come in packs of four.
OTHERS = ("bfloat16", "uint8", "float64", "float16", "int8", "int64", "uint16", "int16", "uint64", "uint32", "int32")


def name(dtype):
    """Of a dtype, however a test gives it."""
    try:
        return np.dtype(dtype).name
    except TypeError:
        return str(dtype)


def few(dtypes):
    """Those that stand for all, in their order."""
    names = [name(dtype) for dtype in dtypes]
    other = next((known for known in OTHERS if known in names), None)
    chosen = [dtype for dtype, known in zip(dtypes, names, strict=True) if known in ("float32", other)]
    return chosen or list(dtypes)


def cover(cases):
    """Of cases, which are sets of values, as few as hold every value: again and again the one with most new ones."""
    missing, chosen = set().union(*cases), []
    while missing:
        best = max(range(len(cases)), key=lambda i: len(cases[i] & missing))
        chosen.append(best)
        missing -= cases[best]
    return sorted(chosen)


def values(item):
    """The values of an item's parameters. Those that one `parametrize` gives together belong together: they are one."""
    params = item.callspec.params
    groups = [[of.strip() for of in mark.args[0].split(",")] if isinstance(mark.args[0], str) else list(mark.args[0])
              for mark in item.iter_markers("parametrize")]
    groups += [[of] for of in params if not any(of in group for group in groups)]  # of fixtures
    return {tuple((of, repr(params[of])) for of in group if of in params) for group in groups}


def split(items):
    """(kept, left) of pytest's items."""
    kept, left = [], []
    for _, group in itertools.groupby(items, key=lambda item: item.nodeid.partition("[")[0]):
        group = list(group)
        taken = [] if group[0].get_closest_marker("exhaustive") else group
        if taken and all(hasattr(item, "callspec") for item in group):
            if "dtype" in group[0].callspec.params and group[0].get_closest_marker("every_dtype") is None:
                dtypes = {name(dtype) for dtype in few([item.callspec.params["dtype"] for item in group])}
                taken = [item for item in group if name(item.callspec.params["dtype"]) in dtypes]
            cases = [values(item) for item in taken]
            taken = [taken[i] for i in cover(cases)]
        kept += taken
        left += [item for item in group if item not in taken]
    return kept, left
