"""The disk cache: it saves compilations, notices edits, and is never a reason to fail."""

import ast
import compileall
import os
import shutil
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

import numpy as np
import pytest
import selection
from process import HASTY, TESTS, finish, run, start

import numba_pool as nb
from numba_pool import _runtime
from numba_pool.kernels import _cache

PACKAGE = Path(nb.__file__).parent
ROOT = hasattr(os, "geteuid") and os.geteuid() == 0


def compiled_by(function):
    """The names of the kernels that were compiled, rather than loaded, while `function()` ran."""
    from numba.core import event

    compiled = []

    class Listener(event.Listener):
        def on_start(self, e):
            compiled.append(e.data["dispatcher"].py_func)

        def on_end(self, e):
            pass

    with event.install_listener("numba:compile", Listener()):
        function()
    return [f.__name__ for f in compiled if f.__module__.startswith("numba_pool.")]


def draw(dtype):
    """Run the kernel that compiles fastest."""
    x = np.array([[[3, 4, 12]]], dtype)
    assert nb.fractional_max_pool2d(x, (1, 3), 1, random_samples=np.zeros((1, 2))) == 12


def pool(*dtypes):
    """Run two kernels that compile fast."""
    for dtype in dtypes or ("float32",):
        draw(dtype)
        assert nb.lp_pool1d(np.array([[3, 4, 12]], dtype), np.inf, 3) == 12


def count_compilations(*dtypes):
    print(*compiled_by(lambda: pool(*dtypes)))


def count_one():
    print(*compiled_by(lambda: draw("float32")))


def count_all():
    _runtime.Patience.TOLERATED = 1 << 62  # threads, however busy the machine is: serial calls need fewer functions
    print(*compiled_by(lambda: nb.warmup("float32")))


def network():
    """What a small network asks for."""
    few, many = (np.moveaxis(np.ones((n, 24, 24, c), np.float32), -1, 1) for n, c in ((64, 8), (8, 64)))
    for x in (np.ones((64, 8, 24, 24), np.float32), few, many):
        for windows in (2,), (3, 2, 1):
            y, index = nb.max_pool2d(x, *windows, return_indices=True)
            nb.max_pool2d(x, *windows)
            nb.max_pool2d_backward(y, index, x.shape)
            nb.avg_pool2d_backward(nb.avg_pool2d(x, *windows), x.shape, *windows)


def count_after_warmup():
    _runtime.Patience.TOLERATED = 1 << 62
    nb.warmup("float32")
    print(*compiled_by(network))


def files(directory):
    return sorted(Path(directory).rglob("*.nbc"))


def cached_in(folder, **more):
    """Variables of a process that keeps what it compiles in a folder. What is compiled does not matter here."""
    return {"NUMBA_CACHE_DIR": str(folder), **HASTY, **more}


@pytest.fixture(scope="module")
def compiled_once(tmp_path_factory):
    """A cache that one process has filled, and what it compiled."""
    folder = tmp_path_factory.mktemp("filled")
    return folder, run(count_compilations, **cached_in(folder)).split()


@pytest.fixture
def filled(compiled_once, tmp_path):
    """A copy of that cache, which is the test's own."""
    return Path(shutil.copytree(compiled_once[0], tmp_path / "cache"))


@pytest.fixture
def names(compiled_once):
    """Of the functions that had to be compiled."""
    return compiled_once[1]


def test_a_second_process_does_not_compile(filled, names):
    assert len(names) >= 2
    kept = files(filled)
    assert kept
    assert run(count_compilations, **cached_in(filled)).split() == []
    assert files(filled) == kept
    others = [name for name in names if name != "walk"]  # which is compiled once, whatever the kernel
    both = "float64", "float32"  # of which the second is found
    assert sorted(run(count_compilations, *both, **cached_in(filled)).split()) == sorted(others)


def test_every_kernel_is_found_again():
    run(count_all)  # in the directory of everyday use, where most of them are
    assert run(count_all).split() == []


def test_a_batch_of_small_planes_is_warm():
    assert run(count_after_warmup).split() == []


def test_importing_compiles_nothing_and_writes_nothing(tmp_path):
    run(import_alone, NUMBA_CACHE_DIR=str(tmp_path))
    assert not any(tmp_path.iterdir())


def import_alone():
    from numba_pool.functional import maximum

    assert maximum.max_pool2d


def name_of(dtype):
    """What Numba calls a function of an array of halves, in a process that has seen no other kind."""
    from numba.core.itanium_mangler import mangle
    from numba.core.typing.typeof import typeof

    draw(dtype)
    print(mangle("f", [typeof(nb._arrays.raw(np.ones(4, dtype)))]))


def test_kernels_for_two_kinds_of_halves_have_two_names_in_every_process():
    """Or a process that loads both from the disk cache, compiled by two others, may run one of them for both."""
    names = [run(name_of, dtype, before="import ml_dtypes") for dtype in ("float16", "bfloat16", "float16")]
    assert names[0] != names[1]
    assert names[0] == names[2]


def test_the_cache_can_be_turned_off(filled, names):
    """Then nothing is read that is there, and nothing is written that is not."""
    kept = files(filled)
    compiled = run(count_compilations, "float32", "float64", **cached_in(filled, NUMBA_POOL_CACHE="0")).split()
    assert set(compiled) == set(names)
    assert compiled.count("max_drawn") == compiled.count("norm_windows") == 2  # of either dtype
    assert files(filled) == kept


def test_four_processes_fill_an_empty_cache_at_once(tmp_path):
    dtypes = "float32", "float64"
    processes = [start(count_compilations, dtype, **cached_in(tmp_path)) for dtype in 2 * dtypes]
    for process in processes:
        assert finish(process)[1] == ""
    assert not list(tmp_path.rglob("*.tmp"))
    assert run(count_compilations, *dtypes, **cached_in(tmp_path)).split() == []


def damage(content):
    """Ways in which a file may be broken."""
    n = len(content)
    for at in (5, 40, n // 3, 2 * n // 3, n - 5):
        yield content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]
    yield b""
    yield content[:10]
    yield content[: n // 2]
    yield b"\0" * n
    yield content + b"more"


def test_damage_is_noticed(tmp_path):
    file = tmp_path / "kernel.nbc"
    _cache.write(file, bytes(range(256)) * 9)
    content = file.read_bytes()
    assert _cache.read(file) == bytes(range(256)) * 9
    for broken in damage(content):
        file.write_bytes(broken)
        assert _cache.read(file) is None
    file.unlink()
    assert _cache.read(file) is None
    file.mkdir()
    assert _cache.read(file) is None


def test_damaged_files_are_compiled_again(filled, names):
    """And whole ones of another kernel, or of another kind."""
    kept = files(filled)
    contents = [file.read_bytes() for file in kept]
    for n, (file, content) in enumerate(zip(kept, contents, strict=True)):
        file.write_bytes(list(damage(content))[2 + n])
    out, err = finish(start(count_compilations, **cached_in(filled)))
    assert (sorted(out.split()), err) == (sorted(names), "")
    contents = {file: file.read_bytes() for file in kept}
    drawn, norm, walk = kept
    drawn.write_bytes(contents[norm])
    _cache.write(walk, b"whole, but no pickle")
    out, err = finish(start(count_compilations, **cached_in(filled)))
    assert ("max_drawn" in out.split(), "walk" in out.split(), "norm_windows" in out.split()) == (True, True, False)
    assert err == ""
    assert run(count_compilations, **cached_in(filled)).split() == []


def flush_one():
    from numba_pool.kernels import lp

    pool()
    print(lp.norm_windows.serial.stats.cache_path)
    lp.norm_windows.serial._cache.flush()


def test_a_kernels_files_can_be_forgotten(filled):
    assert Path(run(flush_one, **cached_in(filled)).strip()).parent == filled
    again = run(count_compilations, **cached_in(filled)).split()
    assert "norm_windows" in again
    assert "max_drawn" not in again


@pytest.mark.parametrize("value", [None, 3, 2.5, "a", np.float32(2), np.dtype("f4"), (1, (2, "b")), np.float32])
def test_what_a_kernel_closes_over_is_part_of_its_key(value):
    def made(value):
        return lambda: value

    assert _cache.describe(made(value)) == _cache.describe(made(value))
    assert _cache.describe(made(value)) != _cache.describe(made("other"))


def test_a_kernel_that_closes_over_what_has_no_name_is_refused():
    array = np.ones(2)
    with pytest.raises(TypeError, match="no kernel's machine code may depend on"):
        _cache.describe(lambda: array)


@pytest.fixture
def copy(tmp_path):
    """A copy of the package without a cache, which processes import in place of the installed one."""
    shutil.copytree(PACKAGE, tmp_path / "site" / "numba_pool", ignore=shutil.ignore_patterns("*.nbc"))
    return tmp_path / "site"


def variables(copy, home="/dev/null", **more):
    return {"PYTHONPATH": f"{copy}{os.pathsep}{TESTS}", "HOME": str(home), "XDG_CACHE_HOME": None,
            "NUMBA_CACHE_DIR": None, "PYTHONDONTWRITEBYTECODE": "1", **HASTY, **more}


ORDINARY = f"""
import ctypes, os, sys
if {ROOT} and "ordinary" not in os.environ:  # without CAP_DAC_OVERRIDE, root's right to write where nobody may
    assert ctypes.CDLL(None).prctl(24, 1, 0, 0, 0) == 0
    os.environ["ordinary"] = "yes"
    os.execv(sys.executable, sys.orig_argv)
"""


def run_ordinary(function, **variables):
    """Run `function` with a user's rights; returns the words it printed, and its errors and warnings."""
    out, err = finish(start(function, before=ORDINARY, **variables))
    return out.split(), err


def make_read_only(directory):
    for path in (directory, *directory.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)


needs_permissions = pytest.mark.skipif(sys.platform != "linux", reason="permissions as on Linux")


@needs_permissions
def test_read_only_packages_and_no_home_take_one_warning(copy):
    make_read_only(copy)
    for cache in (None, "/dev/null/cache", str(copy / "cache")):
        compiled, err = run_ordinary(count_one, **variables(copy, NUMBA_CACHE_DIR=cache))
        assert compiled
        assert err.count("Warning") == 1
        assert "RuntimeWarning: numba_pool works, but every process compiles anew: none of" in err
        assert ("Set NUMBA_CACHE_DIR" in err) == (cache is None)
        assert cache is None or f"Make {cache}, which is NUMBA_CACHE_DIR, a writable directory" in err
        assert not files(copy)


@needs_permissions
def test_read_only_packages_use_the_home(copy, tmp_path):
    make_read_only(copy)
    home = tmp_path / "home"
    compiled, err = run_ordinary(count_one, **variables(copy, home))
    assert compiled
    assert err == ""
    assert files(home)
    assert run_ordinary(count_one, **variables(copy, home)) == ([], "")


@needs_permissions
def test_a_cache_filled_before_the_package_became_read_only_is_used(copy):
    assert run(count_one, **variables(copy)).split()
    make_read_only(copy)
    assert run_ordinary(count_one, **variables(copy)) == ([], "")


@needs_permissions
def test_a_full_disk_takes_one_warning(tmp_path):
    out, err = finish(start(count_on_full_disk, **cached_in(tmp_path)))
    assert out.split()
    assert err.count("Warning") == 1
    assert "OSError on writing to" in err
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def count_on_full_disk():
    import resource

    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
    count_one()


def without_sources(package):
    assert compileall.compile_dir(package, quiet=1, legacy=True)
    for file in package.rglob("*.py"):
        file.unlink()


@pytest.fixture
def frozen(kind, copy, tmp_path):
    """The same as an application has it that is shipped without sources: bytecode in a folder, or in a zip file."""
    without_sources(copy / "numba_pool")
    return str(copy) if kind == "folder" else shutil.make_archive(tmp_path / "site", "zip", copy)


def pool_frozen(site):
    """Pools and plans, and tells what was compiled."""
    assert str(site) in nb.__file__

    def work():
        pool()
        planned = nb.plan(nb.max_pool1d, (1, 1, 4), "float32", 2)
        out = np.empty(planned.output_shape, planned.dtype)
        nb.run(planned, np.float32([[[1, 3, 2, 0]]]), out)
        assert out.tolist() == [[[3, 2]]]

    print(*compiled_by(work))


@pytest.mark.parametrize("kind", ["zip", "folder"] if selection.exhaustive else ["zip"])
def test_without_sources_a_second_process_does_not_compile(frozen, tmp_path):
    """Nor does one whose application has unpacked itself into another folder."""
    cache = str(tmp_path / "cache")
    out, err = finish(start(pool_frozen, frozen, **variables(frozen, NUMBA_CACHE_DIR=cache)))
    assert len(out.split()) > 2
    assert err == ""
    assert files(cache)
    elsewhere = frozen.replace("site", "elsewhere")
    os.rename(frozen, elsewhere)
    out, err = finish(start(pool_frozen, elsewhere, **variables(elsewhere, NUMBA_CACHE_DIR=cache)))
    assert (out.split(), err) == ([], "")


@pytest.mark.parametrize("kind", ["zip", "folder"] if selection.exhaustive else ["folder"])
def test_without_sources_the_home_is_used(frozen, tmp_path):
    home = tmp_path / "home"
    assert run(pool_frozen, frozen, **variables(frozen, home)).split()
    assert files(home)
    assert not files(tmp_path / "site")
    assert run(pool_frozen, frozen, **variables(frozen, home)).split() == []


def digests_of(*packages):
    print(*(_cache.digest_sources(Path(package)) for package in packages))


def test_bytecode_has_a_digest_that_is_the_same_in_every_process(copy, tmp_path):
    """And another one where only a number differs."""
    packages = [tmp_path / number for number in "12"]
    for package in packages:
        shutil.copytree(copy / "numba_pool", package)
        (package / "simd" / "more.py").write_text(f"a = {package.name}\nb = a in {{'x', 'y', 'z'}}\n")
        without_sources(package)
    first, second = (run(digests_of, *map(str, packages), PYTHONHASHSEED=seed).split() for seed in "12")
    assert first == second
    assert [len(digest) for digest in first] == [16, 16]
    assert first[0] != first[1]


def test_what_a_loader_has_of_a_module():
    """Applications frozen into one file have bytecode, and name the file that it was made of."""

    class Loader:
        def get_data(self, path):
            raise FileNotFoundError(path)

        def get_code(self, name):
            return compile("a = 1", name, "exec")

    specs = [ModuleSpec("m", Loader(), origin=origin) for origin in ("/gone/m.py", "/gone/m.pyc", None)]
    made_of = set(map(_cache.content, specs))
    assert made_of == {_cache.described(compile("a = 1", "m", "exec")).encode()}
    kernels = nb.kernels
    assert _cache.content(kernels.__spec__) == Path(kernels.__file__).read_bytes()


def test_a_frozen_application_keeps_nothing_where_it_unpacks_itself(monkeypatch):
    monkeypatch.setattr(_cache, "FROZEN", True)
    places = list(_cache.candidates())
    assert places
    assert {place.name for place in places} == {f"numba_pool_{_cache.SOURCES}"}
    assert not any(PACKAGE in place.parents for place in places)


def test_without_a_home(monkeypatch):
    def no_home(self):
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "expanduser", no_home)
    assert list(_cache.candidates())[-1] == PACKAGE / "kernels" / "__pycache__"


def test_an_edit_of_any_kernel_file_invalidates(copy, tmp_path):
    package = copy / "numba_pool"
    before = _cache.digest_sources(package)
    assert before == _cache.SOURCES
    seen = {before}
    kernels = [file for folder in ("kernels", "simd") for file in (package / folder).glob("*.py")]
    kernels += package / "_windows.py", package / "_collector.py"
    for file in kernels:
        source = file.read_bytes()
        file.write_bytes(source + b"\n")
        seen.add(_cache.digest_sources(package))
        file.write_bytes(source)
    assert len(seen) == 1 + len(kernels)
    assert _cache.digest_sources(package) == before
    assert _cache.digest_sources(tmp_path / "nowhere") == ""


def test_an_edit_compiles_again_and_removes_what_it_made_stale(copy):
    first = run(count_compilations, **variables(copy)).split()
    kept = files(copy)
    assert len(kept) == 3  # two kernels, and what calls them
    edited = copy / "numba_pool" / "kernels" / "__init__.py"
    edited.write_text(edited.read_text() + "\n")
    assert run(count_compilations, **variables(copy)).split() == first
    assert len(files(copy)) == len(kept)
    assert not set(files(copy)) & set(kept)


def test_kernels_are_made_of_files_that_the_cache_knows():
    for file in (*(PACKAGE / "kernels").glob("*.py"), *(PACKAGE / "simd").glob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and node.level > 1:
                known = node.module.partition(".")[0] in ("_collector", "_windows", "simd")
                assert known, f"{file.name} imports {node.module}"
            assert not (isinstance(node, ast.ImportFrom) and (node.module or "").startswith("numba_pool"))


def pool_and_name_the_cache():
    from numba_pool.kernels import lp

    count_compilations()
    print(_cache.OWN_CACHE, type(lp.norm_windows.serial._cache).__name__)


def test_another_numba_degrades_to_its_own_cache(copy):
    """With a Numba that has changed inside."""
    name = "numba.core.compiler_lock"
    changed = f"""
import numba, sys, types
lock, sys.modules["{name}"] = sys.modules["{name}"], types.ModuleType("{name}")
import numba_pool
sys.modules["{name}"] = lock
"""
    first = run(pool_and_name_the_cache, before=changed, **variables(copy)).split()
    assert len(first) > 2
    again = run(pool_and_name_the_cache, before=changed, **variables(copy)).split()
    assert again == first[-2:] == ["False", "FunctionCache"]
