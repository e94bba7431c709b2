"""Which lines of the kernels the tests compile, and which they run.

    python tests/kernel_coverage.py [--lines] [arguments for pytest]

works on a copy of the package in a temporary directory, in whose functions every straight run of statements begins by
marking that it was reached: a byte of a file that all processes of the tests map to the same address, so that machine
code from the disk cache of that copy marks it too. NUMBA_JIT_COVERAGE, for comparison, tells what was compiled only.

A line is compiled when Numba infers its types in some kernel. What is Python (the makers of intrinsics and overloads,
the disk cache) is compiled when it runs. Lines that are not are listed below the table, with --lines by their text;
module level is not counted. Linux only.
"""

import argparse
import ast
import mmap
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

TESTS = Path(__file__).parent
PACKAGE = TESTS.parent / "numba_pool"
# What pools. The others take processes apart, or look at the examples, benchmarks and documents.
CHOSEN = ("adaptive", "avg", "errors", "fractional", "global", "large", "layers", "lp", "max",
          "memory_fences", "properties", "runtime_cache", "runtime_input", "sections", "unpool")

MARKS = '''
"""Where the statements of the other files mark that they were reached."""

import ctypes
import os

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload

FILE, SITES, ADDRESS = {file!r}, {sites}, 0x6F0000000000  # the same in every process, as what is cached holds it
MAP_SHARED, MAP_FIXED_NOREPLACE = 1, 0x100000

libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
file = os.open(FILE, os.O_RDWR)
found = libc.mmap(ADDRESS, 2 * SITES, 3, MAP_SHARED | MAP_FIXED_NOREPLACE, file, 0)
if found != ADDRESS and ctypes.get_errno() != 17:  # EEXIST: imported a second time
    raise OSError(ctypes.get_errno(), "mmap")
os.close(file)
marks = (ctypes.c_uint8 * (2 * SITES)).from_address(ADDRESS)


@intrinsic
def mark(typingctx, site):
    def gen(ctx, b, sig, args):
        at = b.add(args[0], ir.IntType(64)(ADDRESS + SITES))
        b.store(ir.IntType(8)(1), b.inttoptr(at, ir.IntType(8).as_pointer()))
        return ctx.get_dummy_value()

    return types.void(types.int64), gen


def reach(site):
    marks[site] = marks[SITES + site] = 1


@overload(reach, prefer_literal=True)
def _reach(site):
    if isinstance(site, types.IntegerLiteral):  # asked for first
        marks[site.literal_value] = 1
        return None
    return lambda site: mark(site)
'''


class Marker(ast.NodeTransformer):
    """Put a call before every straight run of statements inside functions; `sites` are the lines of each run."""

    def __init__(self, first):
        self.first, self.sites, self.depth = first, [], 0

    def block(self, statements):
        marked, open_run = [], None
        for n, statement in enumerate(statements):
            docstring = n == 0 and isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
            if not docstring and not isinstance(statement, (ast.Global, ast.Nonlocal)):
                if open_run is None:
                    open_run = []
                    marked.append(ast.parse(f"_reach({self.first + len(self.sites)})").body[0])
                    self.sites.append(open_run)
                open_run.append(statement.lineno)
            marked.append(self.visit(statement))
            if hasattr(statement, "body") and not isinstance(statement, ast.FunctionDef):
                open_run = None  # what follows may not be reached
        return marked

    def generic_visit(self, node):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list) and block:
                setattr(node, name, self.block(block) if self.depth else [self.visit(s) for s in block])
        for handler in getattr(node, "handlers", ()):
            self.generic_visit(handler)
        return node

    def visit_FunctionDef(self, node):
        self.depth += 1
        self.generic_visit(node)
        self.depth -= 1
        return node


def instrument(root):
    """A copy of the package and of the tests below `root`; the marks, and what file and lines each site stands for."""
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(PACKAGE, root / "numba_pool", ignore=ignore)
    shutil.copytree(TESTS, root / "tests", ignore=ignore)
    shutil.copy(TESTS.parent / "pyproject.toml", root)
    sites = []
    for file in sorted((root / "numba_pool" / "kernels").glob("*.py")):
        marker = Marker(len(sites))
        tree = marker.visit(ast.parse(file.read_text()))
        if marker.sites:
            documented = ast.get_docstring(tree) is not None
            tree.body.insert(documented, ast.parse("from kernel_marks import reach as _reach").body[0])
            file.write_text(ast.unparse(ast.fix_missing_locations(tree)) + "\n")
        sites += [(file.name, lines) for lines in marker.sites]
    pages = -(-2 * len(sites) // mmap.PAGESIZE)
    (root / "marks").write_bytes(bytes(pages * mmap.PAGESIZE))
    # The tests start processes with their own folder on the path.
    text = MARKS.format(file=str(root / "marks"), sites=len(sites))
    (root / "tests" / "kernel_marks.py").write_text(text)
    (root / "tests" / "sitecustomize.py").write_text(
        f"import sys\nsys.path.insert(sys.path.index({str(root / 'tests')!r}) + 1, {str(root)!r})\n"
    )
    return sites


def numbers(lines):
    """'3-5, 8' for 3, 4, 5, 8."""
    runs = []
    for line in sorted(lines):
        if runs and line == runs[-1][1] + 1:
            runs[-1][1] = line
        else:
            runs.append([line, line])
    return ", ".join(f"{a}-{b}" if a < b else f"{a}" for a, b in runs)


def report(sites, marks, show):
    """A table of all files, and the lines that were not compiled or not run."""
    rows, missing = [], []
    for name in sorted({name for name, _ in sites}):
        every, compiled, ran = set(), set(), set()
        for site, (file, lines) in enumerate(sites):
            if file == name:
                every.update(lines)
                compiled.update(lines if marks[site] else ())
                ran.update(lines if marks[len(sites) + site] else ())
        rows.append((name, len(every), len(compiled), len(ran)))
        source = (PACKAGE / "kernels" / name).read_text().splitlines()
        for what, lines in (("not compiled", every - compiled), ("compiled, not run", compiled - ran)):
            if lines:
                missing.append(f"{name}, {what}: {numbers(lines)}")
                missing += [f"  {line:4} {source[line - 1]}" for line in sorted(lines) if show]
    rows.append(("all", *(sum(row[n] for row in rows) for n in (1, 2, 3))))
    print("\n| file | statements | compiled | run |\n|---|---|---|---|")
    for name, every, compiled, ran in rows:
        print(f"| {name} | {every} | {100 * compiled / every:.1f} % | {100 * ran / every:.1f} % |")
    print("", *missing, sep="\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", action="store_true", help="print the text of the lines that were not reached")
    arguments, for_pytest = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        sites = instrument(root)
        if not any(argument.startswith("test") for argument in for_pytest):
            for_pytest += [f"tests/test_{name}.py" for name in CHOSEN if (TESTS / f"test_{name}.py").exists()]
        environment = {**os.environ, "PYTHONPATH": str(root / "tests"), "NUMBA_CACHE_DIR": str(root / "cache"),
                       "NUMBA_NUM_THREADS": os.environ.get("NUMBA_NUM_THREADS", "2")}
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *for_pytest]
        status = subprocess.run(command, cwd=root, env=environment).returncode
        report(sites, (root / "marks").read_bytes(), arguments.lines)
    sys.exit(status)


if __name__ == "__main__":
    main()
