"""Every kernel argument flush against memory that cannot be touched, on random configurations.

Each array that a kernel gets is moved to its own mapping between two inaccessible pages, to the start or to the end,
with known bytes in what is left of its pages. A read or write beyond it ends the process; a write into the rest is
found afterwards. Results have to be those of the ordinary call, bit for bit.

    python tests/fences.py [--seconds 600] [--seed 0] [--dtypes float32,float64,...]

prints each configuration before its call, so that the last line of a process that died names it. The command with
NUMBA_BOUNDSCHECK=1 checks indices instead of pages (plain kernels only: intrinsics have no checks).
"""

import argparse
import ctypes
import mmap
import random
import sys
import time

import ml_dtypes
import numpy as np
from llvmlite import ir
from numba.core import cgutils

import numba_pool as nb
import numba_pool.blocks.plan  # or `coarsen` imports it too late for its `launch` to be replaced
from numba_pool import _runtime
from numba_pool.kernels._driver import WALL

PAGE = mmap.PAGESIZE
CANARY = 0xA5
INTEGERS = tuple(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))
DTYPES = ("float32", "float64", "float16", "bfloat16", *INTEGERS)


class Fenced:
    """A copy of an array between inaccessible pages."""

    def __init__(self, a, at_end, skip=0):
        pages = max(1, -(-(a.nbytes + skip) // PAGE))
        self.mapping = mmap.mmap(-1, (pages + 2) * PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        whole = np.frombuffer(self.mapping, np.uint8)
        address = whole.__array_interface__["data"][0]
        self.middle = whole[PAGE:-PAGE]
        self.middle[:] = CANARY
        self.start = pages * PAGE - a.nbytes if at_end else skip
        self.array = np.ndarray(a.shape, a.dtype, self.middle[self.start : self.start + a.nbytes].data)
        self.array[...] = a
        self.array.flags.writeable = a.flags.writeable
        for fence in (address, address + (pages + 1) * PAGE):
            protect(fence)

    def check(self, worker="a worker"):
        """Nothing beside the array was written."""
        rest = np.delete(self.middle, slice(self.start, self.start + self.array.nbytes))
        assert (rest == CANARY).all(), f"{worker} wrote {np.count_nonzero(rest != CANARY)} bytes beside an array"


libc = ctypes.CDLL(None, use_errno=True)
libc.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


def protect(address):
    """Make a page inaccessible."""
    if libc.mprotect(address, PAGE, 0):
        raise OSError(ctypes.get_errno(), "mprotect")


def arrays_in(args):
    """All arrays among them, and in tuples among them."""
    for a in args:
        if isinstance(a, tuple):
            yield from arrays_in(a)
        elif isinstance(a, np.ndarray):
            yield a


def fenced_launch(rng, seen, ends):
    """A launch that moves all arrays between fences, and runs the worker or the driver. Names of workers are `seen`.
    Arrays are moved to the end of what may be touched, to its start, or to either: `ends` says to which.
    """

    def launch(worker, units, traffic, *args):
        if units == 0:
            return 0
        name = getattr(worker, "__name__", "a worker that ran before")  # kept calls know its code alone
        seen.add(name)
        # At the end, at the start, or where vectors straddle lines, as they do at NumPy's own addresses.
        moved = {id(a): Fenced(a, rng.choice(ends), rng.choice((0, 0, 16, 32))) for a in arrays_in(args)}

        def within(a):
            if isinstance(a, tuple):
                return tuple(map(within, a))
            return moved[id(a)].array if isinstance(a, np.ndarray) else a

        inside = within(args)
        if rng.random() < 0.5:
            result = worker(0, units, inside)
        else:
            result, _ = worker.parallel(rng.randint(1, min(units, 9)), rng.randint(1, 5), WALL, units, inside)
        for a in arrays_in(args):
            moved[id(a)].check(name)
            if a.flags.writeable:
                a[...] = moved[id(a)].array
        return result

    return launch


def modules():
    """Those that call `launch`."""
    ours = [module for name, module in sys.modules.items() if name.startswith("numba_pool.")]
    return [module for module in ours if module is not _runtime and getattr(module, "launch", None) is _runtime.launch]


class Fences:
    """Inside the block every public function runs its kernels between fences; `seen` are the names of these."""

    def __init__(self, rng, ends=(True, False)):
        self.rng, self.seen, self.ends = rng, set(), ends

    def __enter__(self):
        self.modules = modules()
        assert self.modules
        self.small, _runtime.SERIAL_BYTES = _runtime.SERIAL_BYTES, 0  # calls that are kept launch all work
        for module in self.modules:
            module.launch = fenced_launch(self.rng, self.seen, self.ends)
        return self

    def __exit__(self, *error):
        for module in self.modules:
            module.launch = _runtime.launch
        _runtime.SERIAL_BYTES = self.small


def fence_scratch():
    """From now on the scratch arrays of kernels end with an inaccessible page, too, and are filled with NaN or -1. All
    kernels are compiled anew, and what they take is never given back.
    """
    byte, i32, i64 = (ir.IntType(bits) for bits in (8, 32, 64))
    data = byte.as_pointer()

    def new_array(ctx, b, array_type, size):
        def call(name, returned, *args):
            signature = ir.FunctionType(returned, [arg.type for arg in args])
            return b.call(cgutils.get_or_insert_function(b.module, signature, name), args)

        array, width = ctx.make_array(array_type)(ctx, b), i64(ctx.get_abi_sizeof(ctx.get_data_type(array_type.dtype)))
        many = b.mul(size, width)
        room = b.and_(b.add(many, i64(PAGE - 1)), i64(-PAGE))
        access, kind = mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        start = call("mmap", data, ir.Constant(data, None), b.add(room, i64(2 * PAGE)), i32(access), i32(kind), i32(-1),
                     i64(0))
        end = b.gep(start, [b.add(room, i64(PAGE))])
        for fence in (start, end):
            call("mprotect", i32, fence, i64(PAGE), i32(0))
        first = b.gep(end, [b.neg(many)])
        call("memset", data, first, i32(0xFF), many)
        array.meminfo = ctx.nrt.meminfo_alloc_aligned(b, i64(PAGE), 64)
        array.data, array.nitems, array.itemsize = b.bitcast(first, array.data.type), size, width
        array.shape, array.strides = (cgutils.pack_array(b, [value]) for value in (size, width))
        return array._getvalue()

    for name, module in list(sys.modules.items()):
        if name.startswith("numba_pool.") and getattr(module, "new_array", None) is not None:
            module.new_array = new_array


def values(rng, shape, dtype):
    random_values = np.random.default_rng(rng.randrange(1 << 30))
    if np.dtype(dtype).kind in "iu":
        return random_values.integers(0, 100, shape).astype(dtype)
    x = random_values.standard_normal(shape)
    if rng.random() < 0.2:
        x[random_values.random(shape) < 0.1] = rng.choice((np.nan, np.inf, -np.inf))
    return x.astype(dtype)


def ordered(a, rank, last):
    """C-contiguous, or channels last in memory."""
    return np.moveaxis(np.ascontiguousarray(np.moveaxis(a, -rank - 1, -1)), -1, -rank - 1) if last else a


COMMON = ((2, 2, 0), (3, 2, 1), (3, 2, 0), (3, 1, 1), (5, 1, 2), (2, 1, 0), (3, 3, 0), (7, 1, 3), (13, 1, 6), (4, 4, 0))


def configuration(rng, dtypes, large=0.0):
    """Rank, shape, window arguments, dtype and memory order of a call; shapes of the fast paths come up often."""
    rank = rng.choice((1, 2, 2, 2, 3))
    spatial = [rng.randint(1, (40, 12, 6)[rank - 1]) for _ in range(rank - 1)] + [rng.randint(1, 70)]
    channels = rng.choice((1, 2, 3, rng.randint(1, 40), rng.randint(1, 40), rng.choice((48, 64, 144))))
    if rng.random() < large:
        rank, spatial, channels = 2, [rng.randint(1100, 1200), rng.randint(1100, 1200)], rng.randint(4, 6)
    if rng.random() < 0.6:
        kernel, stride, padding = rng.choice((*COMMON, (tuple(spatial), 1, 0)))  # the last are global
        windows = {"kernel_size": kernel, "stride": stride, "padding": padding}
    else:
        kernel = [rng.randint(1, 5) for _ in range(rank)]
        stride = [rng.randint(1, 4) for _ in range(rank)]
        if rng.random() < 0.3:
            kernel[-1], stride[-1] = rng.randint(6, 17), rng.randint(1, 17)
        windows = {"kernel_size": tuple(kernel), "stride": tuple(stride),
                   "padding": tuple(rng.randint(0, k // 2) for k in kernel),
                   "dilation": rng.choice((1, 1, 2, 3))}
    if rng.random() < 0.25:  # windows that lie in the padding alone
        windows["padding"] = tuple((rng.randint(0, 25), rng.randint(0, 25)) for _ in range(rank))
    windows["ceil_mode"] = rng.random() < 0.3
    return rank, (rng.randint(1, 3), channels, *spatial), windows, rng.choice(dtypes), rng.random() < 0.4


def results(rng, rank, shape, windows, dtype, last):
    """Everything one configuration computes; the same draws from `rng` give the same."""

    def of(name, backward=""):
        return getattr(nb, f"{name}{rank}d{backward}")

    def given(shape, dtype):
        """Fresh memory half of the time, else the caller's."""
        return ordered(np.full(shape, 3, dtype), rank, last) if rng.random() < 0.5 else None

    def like(a):
        return ordered(values(rng, a.shape, dtype), rank, last)

    x = ordered(values(rng, shape, dtype), rank, last)
    floating = x.dtype.kind not in "iu"
    y, index = of("max_pool")(x, **windows, return_indices=True)
    yield y
    yield index
    yield of("max_pool")(x, **windows, out=given(y.shape, dtype))
    g = like(y)
    yield of("max_pool", "_backward")(g, index.astype(rng.choice(("i4", "i8"))), shape, out=given(shape, dtype))
    yield of("avg_pool")(x, **windows, count_include_pad=rng.random() < 0.5, out=given(y.shape, dtype))
    if floating:
        yield of("avg_pool", "_backward")(g, shape, **windows, out=given(shape, dtype))
        norm = rng.choice((1, 2, 3, float("inf")))
        n = of("lp_pool")(x, norm, **windows)
        yield n
        yield of("lp_pool", "_backward")(g, x, n, norm, **windows, out=given(shape, dtype))
    size = tuple(rng.randint(1, 2 * length) for length in shape[2:])
    y, index = of("adaptive_max_pool")(x, size, return_indices=True)
    yield y
    yield index
    yield of("adaptive_avg_pool")(x, size)
    g = like(y)
    yield of("adaptive_max_pool", "_backward")(g, index, shape)
    if floating:
        yield of("adaptive_avg_pool", "_backward")(g, shape)
    if rank > 1:
        samples = np.random.default_rng(rng.randrange(1000)).random((*shape[:2], rank))
        yield of("fractional_max_pool")(x, 1, tuple(-(-length // 2) for length in shape[2:]), random_samples=samples)
    y, index = nb.global_max_pool(x, return_indices=True)
    yield y
    yield nb.global_max_pool_backward(y, index, shape)
    yield nb.global_avg_pool(x)
    step = rng.randint(1, 3)
    plane = [length * step for length in shape[2:]]
    index = np.random.default_rng(rng.randrange(1000)).integers(0, np.prod(plane), shape, np.int32)
    index = ordered(index, rank, last)
    unpooled = of("max_unpool")(x, index, step, out=given((*shape[:2], *plane), dtype))
    yield unpooled
    yield of("max_unpool", "_backward")(unpooled, index, out=given(shape, dtype))


def run(calls, seed=0, dtypes=DTYPES, large=0.0, seconds=1e9):
    """So many random configurations, some of them larger than the caches, or until the time is up."""
    rng, end, done = random.Random(seed), time.monotonic() + seconds, 0
    while done < calls and time.monotonic() < end:
        case = configuration(rng, [np.dtype(getattr(ml_dtypes, name, name)) for name in dtypes], large)
        inner = rng.randrange(1 << 30)
        try:
            expected = [a.tobytes() for a in results(random.Random(inner), *case)]
        except ValueError as error:
            if "leaves no output" in str(error):
                continue
            raise
        print(case, inner, flush=True)
        with Fences(rng):
            for n, result in enumerate(results(random.Random(inner), *case)):
                assert result.tobytes() == expected[n], f"result {n} differs between fences"
        done += 1
    print("configurations:", done)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--dtypes", type=lambda names: names.split(","), default=DTYPES)
    arguments = parser.parse_args()
    run(10**9, arguments.seed, arguments.dtypes, 0.01, arguments.seconds)
