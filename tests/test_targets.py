"""The kernels on machines of other kinds than this one."""

import platform

import numba
import numpy as np
import pytest
from process import PROCESSORS, TESTS, compiled_for, finish_all, print_vector_bytes, run, start

from numba_pool.simd import load, multiply, splat, store, wide_registers

KERNELS = "kernels", "lines", "narrow", "rows", "runs", "segments", "strips", "taps", "turned"
# What Numba compiles for, by the registers that it does not have there; and which small numbers are left out of each,
# so that both take as long: float16 is converted by hand where there are no instructions for it.
TARGETS = {
    "zmm": ("haswell", "-float16"),
    "ymm": ("generic", "uint8"),
}
# And of both what is converted in the same way anywhere, and one more width or sign: nearly all of these minutes is
# compilation.
LEFT_OUT = "bfloat16", "int16", "int64", "float64", "uint32", "-int8", "any_dtype"
WIDTHS = {"haswell": 32, "generic": 16}  # bytes of a register


@numba.njit
def halve(x):
    store(x, 0, multiply(load(x, 0), splat(x, 0.5)))


def everything_without(name, small):
    """Windows of every kind, and maxima in vectors of small elements, after a look at the machine code."""
    x = np.arange(16, dtype=np.float32)
    halve(x)
    assert (x == np.arange(16) / 2).all()
    assert name not in "".join(halve.inspect_asm().values())
    quiet = "-q", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning"
    files = [str(TESTS / f"test_{kernel}.py") for kernel in KERNELS]
    words = " and ".join(f"not {word}" for word in (*LEFT_OUT, small))
    assert pytest.main([*quiet, *files, "-k", words]) == 0


@pytest.mark.exhaustive
@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="targets of x86-64")
def test_other_targets():
    """Vectors of sixteen lanes in the smaller registers of AVX2, and of SSE2, where float16 is converted by hand.

    Side by side: each takes minutes, nearly all of them compilation. Where there is no AVX-512, all other tests are
    those of AVX2.
    """
    targets = TARGETS if wide_registers() else {"ymm": TARGETS["ymm"]}
    finish_all([start(everything_without, name, small, **compiled_for(processor))
                for name, (processor, small) in targets.items()], timeout=2400)


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="targets of x86-64")
@pytest.mark.parametrize("processor", PROCESSORS)
def test_all_tests_can_be_run_for_another_processor(processor):
    """By an option, and in what they start, too."""
    said = run(print_vector_bytes, "--processor", processor).splitlines()[-1]
    assert said.endswith(f"without AVX-512', 'processor': '{processor}', 'bytes': {WIDTHS[processor]}}}")
