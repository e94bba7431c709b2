"""Faults put into the package on purpose: do the tests find them?

    python tests/mutants.py [--jobs 2] [--only TEXT]

Each mutant is a copy of the package and its tests with one line changed, and the tests that ought to turn red: those of
the default run that are named beside it. A mutant that survives is printed. A minute or two each: all kernels that
the tests need are compiled anew.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MAX, AVG, FENCES = "tests/test_max.py", "tests/test_avg.py", "tests/test_memory_fences.py"
LINES, ROWS, RUNS, STRIPS, TAPS, TURNED = (
    f"tests/test_{kernel}.py" for kernel in ("window_rows", "rows", "runs", "strips", "taps", "turned"))
PROGRAM, PROGRAM_ROWS = "tests/test_program.py", "tests/test_program_rows.py"
NANS, SECTIONS, SERVES = "tests/test_nans.py", "tests/test_sections.py", "tests/test_kernels.py"
SEGMENTS = "tests/test_segments.py"
KERNELS = (SERVES, LINES, ROWS, RUNS, STRIPS, TAPS, TURNED)

# file, what stands there, what is put there, tests
MUTANTS = [
    # which of equals wins, and NaN
    ("simd/comparison.py", '"ugt" if FIRST_WINS else "uge"', '"uge"', MAX),
    ("kernels/sections.py", "found += result", "found = result", SECTIONS),
    ("kernels/nans.py", "start %= step", "start = 0", NANS),
    ("kernels/nans.py", "-(-(o + 1) * size // n)", "(o + 1) * size // n", NANS),
    ("kernels/nans.py", "index[out] = last // E % P", "index[out] = last // E", NANS),
    ("kernels/nans.py", "place_of(row, g[OUT_D], g[OUT_H])", "place_of(row, g[OUT_H], g[OUT_D])", NANS),
    # segments
    ("kernels/nans.py", "return g[LAST + 1 + o], g[LAST + 2 + o]", "return g[LAST + 1 + o], g[LAST + 2 + o] - 1",
     SEGMENTS),
    ("kernels/segments.py", "first if first < last else -1", "first", SEGMENTS),
    ("kernels/segments.py", "if offsets[np.uintp(middle)] + middle < wanted:", "if offsets[np.uintp(middle)] < wanted:",
     SEGMENTS),
    ("kernels/segments.py", "            k -= period", "            k = 0", SEGMENTS),
    ("kernels/scatter.py", "done = reach if reach > done else done", "done = reach", SEGMENTS),
    ("simd/columns.py", "whole = b.and_(rows, I64(-MOST_ADDED))", "whole = b.and_(rows, I64(-2))", SEGMENTS),
    ("jitted.py", "            if forward and result > 0:\n", "            if result < 0:\n", NANS),
    ("simd/comparison.py", 'return b.select(b.fcmp_ordered("<", x, inf), x, inf)', "return x", MAX),
    ("simd/comparison.py", '"<" if FIRST_WINS else ">"', '">"', KERNELS),
    ("simd/comparison.py", "without_nan(b, a.element, *args)", "args[0]", LINES),
    ("simd/comparison.py", 'lanes = b.fcmp_ordered("==", args[0], constant(b, llvm(a.element), float("inf")))',
     'lanes = b.fcmp_ordered("==", args[0], constant(b, llvm(a.element), float("-inf")))', MAX),
    # memory, masks, halves
    ("simd/memory.py", "for many in (8, 4, 2, 1):", "for many in (8, 4, 2):", (STRIPS, *KERNELS)),
    ("simd/lanes.py", 'return b.icmp_unsigned("<", b.add(splat_value(b, int32(b, args[0])), lane_numbers()),',
     'return b.icmp_unsigned("<=", b.add(splat_value(b, int32(b, args[0])), lane_numbers()),', LINES),
    ("simd/halves.py", "rounded = b.lshr(b.add(bits, b.add(odd, constant(b, I32, 0x7FFF))), constant(b, I32, 16))",
     "rounded = b.lshr(b.add(bits, constant(b, I32, 0x7FFF)), constant(b, I32, 16))", "tests/test_kernels.py"),
    ("simd/halves.py", "    return b.not_(value)\n", "    return value\n", "tests/test_minimum.py"),
    ("simd/halves.py", "        return b.fneg(value)\n", "        return value\n", "tests/test_minimum.py"),
    ("simd/permutation.py", "range(0, LANES, 2), range(1, LANES, 2)", "range(0, LANES, 2), range(0, LANES, 2)",
     "tests/test_narrow.py"),
    # windows
    ("_windows.py", "np.minimum(self.bounds[1], self.size)", "np.minimum(self.bounds[1], self.size - 1)", MAX),
    ("_windows.py", "np.where(first < 0, first + -(first // self.step) * self.step, first)", "np.maximum(first, 0)",
     MAX),
    ("_windows.py", "np.minimum(last, self.size + self.after)", "np.minimum(last, self.size)", AVG),
    ("_windows.py", "start, stop = o * length // max(n, 1), -(-(o + 1) * length // max(n, 1))",
     "start, stop = o * length // max(n, 1), (o + 1) * length // max(n, 1)", "tests/test_adaptive.py"),
    ("_arguments.py", "if ceil_mode and (n - 1) * s >= length + before:",
     "if ceil_mode and (n - 1) * s > length + before:",
     MAX),
    # sums and divisors
    ("kernels/_reductions.py", "low = 0 if sums else", "low = 1 if sums else", AVG),
    ("kernels/_reductions.py", "-np.inf if isinstance(element, types.Float) else element.minval",
     "-1e30 if isinstance(element, types.Float) else 0", MAX),
    ("kernels/_reductions.py", "splat_value(b, ctx.cast(b, rows, types.int64, element)))", "one)", AVG),
    ("kernels/_reductions.py", "b.sub(slices, b.mul(q, OD))", "slices", (FENCES, MAX)),
    ("kernels/_job.py", "MOST_FLOAT32_ADDITIONS = 8", "MOST_FLOAT32_ADDITIONS = 1 << 30", AVG),
    ("simd/lanes.py", "        return to_odd(b, value)\n", "        pass\n", "tests/test_halves.py"),
    ("blocks/sums.py", "q + step if rest > 0.0", "q - step if rest > 0.0", "tests/test_halves.py"),
    ("blocks/sums.py", "+ (np.int64(low) >> 32)", "", "tests/test_halves.py"),
    # kernels
    ("kernels/_program.py", "starts[first] + done, first + done", "starts[first], first + done", PROGRAM),
    ("kernels/_program.py", "if flat and step == 1 == axis.apart", "if step == 1 == axis.apart", PROGRAM),
    ("kernels/_program.py", "begin + HEADER + runs.size", "HEADER + runs.size", PROGRAM),
    ("kernels/_stages.py", "height.start, rows - 1)", "height.start, rows + 1)", PROGRAM),
    ("kernels/_stages.py", "and (i > 0 or carried or not job.indexed)", "", PROGRAM),
    ("kernels/_stages.py", "known - 1 - back) * step", "known - back) * step", PROGRAM),
    ("kernels/_stages.py", "more = 1 if clipped else -1", "more = 1", PROGRAM),
    ("kernels/_stages.py", "at = lead + done * axis.step", "at = lead + done", PROGRAM_ROWS),
    ("kernels/_stages.py", "inside.append((first + at >= 0) &", "inside.append((first + at > 0) &", PROGRAM_ROWS),
    ("kernels/_stages.py", "lead = (few - 1) * known * step if clipped else 0", "lead = 0", PROGRAM_ROWS),
    ("kernels/_stages.py", "return (forward.kernel - 1) * forward.step - forward.before if", "return 0 if",
     PROGRAM_ROWS),
    ("kernels/rows.py", "np.where(width.lengths, ends, 0)[", "ends[", PROGRAM_ROWS),
    ("kernels/rows.py", "if column == part[COLUMN] + part[ALIKE] * part[COLUMNS_APART]:", "if True:", PROGRAM_ROWS),
    ("kernels/rows.py", "np.tile(np.outer(depth, height).ravel(), planes)", "np.outer(depth, height).ravel()",
     PROGRAM_ROWS),
    ("kernels/rows.py", "or (job.indexed and step > 1)", "", LINES),
    ("kernels/rows.py", "at_most(window, long - piece) * E", "at_most(window, long - piece - 1) * E", LINES),
    ("kernels/rows.py", "select(equal(v, none), v, add(v, place))", "add(v, place)", LINES),
    ("kernels/rows.py", "add(greater(column, zero), indices(place, 0))", "add(column, indices(place, 0))", LINES),
    ("kernels/rows.py", "places[lane] = (row + i) % high * wide", "places[lane] = (row + i) * wide", LINES),
    ("kernels/rows.py", "counts[row + i], load(", "counts[row], load(", LINES),
    ("kernels/rows.py", "if high > rows or wide > count:", "if wide > count:", FENCES),
    ("kernels/rows.py", "if rows < LANES:", "if rows < 0:", FENCES),
    ("kernels/taps.py", "if channel > C - wide:", "if channel > C:", (FENCES, TAPS)),
    ("kernels/taps.py", "a, b, places, more_places = b, a, more_places, places",
     "a, b, places, more_places = b, a, places, more_places", TAPS),
    ("kernels/taps.py", "more = most if stages.shape[0] > 2 else 0", "more = 0", FENCES),
    ("kernels/turned.py", "if plane > planes - wide:", "if plane > planes:", (FENCES, TURNED)),
    ("kernels/turned.py", "if first > P - count:", "if first > P:", (FENCES, TURNED)),
    ("kernels/turned.py", "part, wide = lanes_inside(0, rows)", "part, wide = lanes_inside(0, LANES)",
     (FENCES, TURNED)),
    ("simd/windows.py", 'b.icmp_signed("<", lane, last), lane, last)', 'b.icmp_signed("<", lane, last), lane, lane)',
     (FENCES, TAPS)),
    ("simd/windows.py", 'I64(STRAIGHT), self.given["taps"], I64(1)', 'I64(STRAIGHT + 1), self.given["taps"], I64(1)',
     TAPS),
    ("simd/windows.py", "elif not self.carried:", "else:", TAPS),
    ("simd/windows.py", "b.and_(tall, I64(-FEW))", "b.and_(tall, I64(-2))", TAPS),
    ("kernels/steps.py", "position, position, *known[key]]", "position, 0, *known[key]]", ROWS),
    ("kernels/steps.py", "at, at, out), column + c", "at, at, out), column", ROWS),
    ("kernels/steps.py", "inside(b, min(row, b + room))", "inside(b, row)", ROWS),
    ("kernels/steps.py", "inside(b, min(row, b + room))", "inside(b, b + room)", FENCES),
    ("kernels/_reductions.py", ", taps * columns", ", taps", RUNS),
    ("kernels/_lanes.py", "lanes = o * s + tap * d", "lanes = o * s + tap", ROWS),
    ("kernels/steps.py", "inside(0, long)), other[PLACE_A]", "inside(0, long)), one[PLACE_A]", ROWS),
    ("kernels/strips.py", "above = max(height.kernel - height.stride, 0)",
     "above = max(height.kernel - height.stride - 1, 0)",
     STRIPS),
    ("kernels/narrow.py", "// OW + 1, 0), count)", "// OW + 2, 0), count)", (FENCES, "tests/test_narrow.py")),
    ("kernels/narrow.py", "inside[-1] &= column % 2 == 0", "inside[-1] &= column % 2 == 1", "tests/test_narrow.py"),
    ("kernels/runs.py", "return 0, at_most(LANES, last), at_most(2 * LANES, last), last",
     "return 0, at_most(LANES, last), 2, last",
     RUNS),
    ("kernels/runs.py", "while at <= stop - LANES:", "while at < stop - LANES - 1:", RUNS),
    ("kernels/fills.py", "if before > begin:", "if before > begin + 1:", "tests/test_signals.py"),
    ("kernels/sections.py", "offset, whole = indices(column // walk[SECTION_COLUMN], 0), count // LANES * LANES",
     "offset, whole = indices(0, 0), count // LANES * LANES", SECTIONS),
    ("kernels/sections.py", "for (begin, end), w in zip(span, wide):", "for (begin, end), w in zip(span, wide[::-1]):",
     SECTIONS),
    ("kernels/average.py", "if g[t] != h0 or g[t + OH] != h1:", "if g[t] != h0:", AVG),
    ("kernels/average.py", "for o in range(o0, o1, E):", "for o in range(o0, o0 + E, E):", AVG),
    ("kernels/average.py", "+ o - g[t + w]) * LANES", "+ o - g[t]) * LANES", AVG),
    ("kernels/scatter.py", "if i < count:", "if i <= count:", (FENCES, MAX)),
    ("kernels/scatter.py", "(ZERO if accumulate is None else ONE)", "ONE", "tests/test_unpool.py"),
    ("kernels/scatter.py", "if missed and part == 0:", "if missed and part == 1:", MAX),
    ("kernels/scatter.py", "k, ahead = ZERO, begin", "k, ahead = ZERO, ZERO", MAX),
    ("kernels/scatter.py", "if i < pixels:", "if i <= pixels:", "tests/test_unpool.py"),
    # which kernel serves
    ("kernels/strips.py", "len(width.start) * job.elements <=", "len(width.start) <=", SERVES),
]


def tried(mutant):
    """(whether the tests find this fault, the test that does, or what came instead)."""
    file, old, new, tests = mutant
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        ignore = shutil.ignore_patterns("__pycache__")
        for name in ("numba_pool", "tests", "examples", "docs"):
            shutil.copytree(ROOT / name, root / name, ignore=ignore)
        shutil.copy(ROOT / "pyproject.toml", root)
        path = root / "numba_pool" / file
        source = path.read_text()
        if old not in source:
            return False, f"not there: {old}"
        path.write_text(source.replace(old, new, 1))
        environment = {**os.environ, "PYTHONPATH": str(root), "NUMBA_CACHE_DIR": str(root / "cache"),
                       "NUMBA_NUM_THREADS": "2", "HYPOTHESIS_PROFILE": "mutants"}
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider",
                   *((tests,) if isinstance(tests, str) else tests)]
        for processor in ((), ("--processor", "haswell")):  # some faults are in what AVX-512 has no need of
            run = subprocess.run([*command, *processor], cwd=root, env=environment, capture_output=True, text=True)
            failed = re.search(r"^FAILED (\S+)", run.stdout, re.MULTILINE)
            if run.returncode == 1 and failed:
                return True, " ".join((failed[1], *processor))
        return False, f"status {run.returncode}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    chosen = [mutant for mutant in MUTANTS if given.only in str(mutant)]
    found = 0
    with ThreadPoolExecutor(given.jobs) as pool:
        for mutant, (seen, by) in zip(chosen, pool.map(tried, chosen), strict=True):
            found += seen
            print(f"{'found' if seen else 'SURVIVES'} {mutant[0]}: {mutant[2].strip()}   ({by})", flush=True)
    print(f"{found} of {len(chosen)} found")
    sys.exit(found < len(chosen))


if __name__ == "__main__":
    main()
