"""examples/pyramid_cluster.py: pyramids by real processes of dask.distributed, also by some that are killed."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numba
import numpy as np
import pytest
from process import environment

import numba_pool

pytest.importorskip("distributed")
zarr = pytest.importorskip("zarr")
models = pytest.importorskip("ome_zarr_models")
from distributed import Client, WorkerPlugin  # noqa: E402

EXAMPLES = Path(__file__).parents[1] / "examples"
sys.path.insert(0, str(EXAMPLES))
import ome_image  # noqa: E402
import pyramid_cluster  # noqa: E402

sys.path.remove(str(EXAMPLES))

SIZE, CHUNK, EDGE, LEVELS = (40, 36, 70), 8, 32, 2
REGIONS = 2 * 2 * 3
SMALL = ["--size", *map(str, SIZE), "--chunk", str(CHUNK), "--region", str(EDGE), "--levels", str(LEVELS)]


# ---- processes -------------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def limit():
    """No test waits for ever: some calls of a client have no timeout."""
    signal.signal(signal.SIGALRM, lambda *_: pytest.fail("this takes too long"))
    signal.alarm(100)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)


def command(log, *words, **variables):
    """A process of its own group, which its children belong to; what they print goes to a file."""
    path = os.pathsep.join(map(str, (EXAMPLES, EXAMPLES.parent, Path(__file__).parent)))
    variables = {"NUMBA_NUM_THREADS": None, "OMP_NUM_THREADS": None, "PYTHONPATH": path, **variables}
    with open(log, "w") as out:
        process = subprocess.Popen([sys.executable, *words], stdout=out, stderr=subprocess.STDOUT,
                                   env=environment(**variables), start_new_session=True)
    process.log = Path(log)
    return process


def kill(process):
    """It and its children; returns what it printed."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(timeout=20)
    return process.log.read_text()


def wait_until(condition, process):
    until = time.monotonic() + 50
    while not condition():
        if process.poll() is not None or time.monotonic() > until:
            pytest.fail(f"the process is of no use\n{kill(process)[-3000:]}")
        time.sleep(0.02)


def script(path, *options, status=0, **variables):
    """What a run of the example prints, as from a shell."""
    process = command(f"{path}.log", str(EXAMPLES / "pyramid_cluster.py"), str(path), *options, **variables)
    try:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=50)
    finally:
        out = kill(process)
    assert process.returncode == status, out
    return out


@pytest.fixture(scope="module")
def compiled():
    """Kernels are on the disk before workers need them."""
    for labels, reduction in ((False, "mean"), (True, "mode")):
        whole = pyramid_cluster.volume(tuple(slice(0, n) for n in SIZE), labels)
        for region in pyramid_cluster.plan(SIZE, LEVELS, CHUNK, EDGE)[1]:
            numba_pool.pyramid_block(whole[region.source], region, reduction)


@pytest.fixture(scope="module")
def scheduler(compiled, tmp_path_factory):
    """The address of a scheduler with two workers, started as the example says."""
    folder = tmp_path_factory.mktemp("scheduler")
    file = folder / "address.json"
    started = [command(folder / "scheduler.log", "-m", "dask", "scheduler", "--port", "0", "--no-dashboard",
                       "--scheduler-file", str(file))]
    try:
        wait_until(file.exists, started[0])
        address = json.loads(file.read_text())["address"]
        started.append(command(folder / "workers.log", "-m", "dask", "worker", address, "--nworkers", "2", "--nthreads",
                               "1", "--no-dashboard", "--local-directory", str(folder)))
        with Client(address, timeout=40) as client:
            wait_until(lambda: len(client.nthreads()) == 2, started[1])
        yield address
    finally:
        for process in reversed(started):
            kill(process)


def at_a_chunk(key, act):
    """Have this process `act(path of the file, content)` before it writes the chunk of that key, until `undo()`."""
    from zarr.storage import LocalStore

    put = LocalStore.set

    async def changed(self, at, value):
        if f"{self.root / at}".endswith(key):
            act(self.root / at, value.to_bytes())
        return await put(self, at, value)

    LocalStore.set = changed
    return lambda: setattr(LocalStore, "set", put)  # undo


def who_writes():
    from zarr.storage import LocalStore

    return LocalStore.set.__qualname__


class Killer(WorkerPlugin):
    """Ends the first worker that comes to the file of a chunk, with some of its bytes written."""

    name = "killer"

    def __init__(self, key, share, killed):
        self.key, self.share, self.killed = key, share, killed

    def setup(self, worker):
        def end(path, content):
            with contextlib.suppress(FileExistsError), open(self.killed, "x"):
                if self.share:
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(content[: int(self.share * len(content))])
                os.kill(os.getpid(), signal.SIGKILL)

        self.undo = at_a_chunk(self.key, end)

    def teardown(self, worker):
        self.undo()


def dask_setup(worker):
    """As a preload of a worker: it never comes to an end with one region."""
    at_a_chunk(os.environ["STUCK_AT"], lambda path, content: time.sleep(1000))


# ---- what is right ---------------------------------------------------------------------------------------------------


AXES = ome_image.axes_of("zyx", pyramid_cluster.SCALE, ["micrometer"] * 3)


def check(path, version="0.5", labels=False):
    """The image, or the labels in it, is valid, and every level is, bit for bit, what one call makes of the volume."""
    whole = pyramid_cluster.volume(tuple(slice(0, n) for n in SIZE), labels)
    want = numba_pool.pyramid(whole, levels=LEVELS, reduction="mode" if labels else "mean")
    group = zarr.open_group(str(path / "labels" / "cells" if labels else path), mode="r")
    for level, expected in enumerate(want):
        assert group[str(level)].dtype == expected.dtype
        np.testing.assert_array_equal(group[str(level)][:], expected)
    assert len(np.unique(want[-1])) > 9

    image = models.open_ome_zarr(group)
    assert image.ome_zarr_version == version
    assert group.metadata.zarr_format == (2 if version == "0.4" else 3)
    described = (image.attributes if version == "0.4" else image.attributes.ome).multiscales[0]
    assert [axis.name for axis in described.axes] == ["z", "y", "x"]
    assert described.type == ("mode" if labels else "mean")
    assert described.metadata["method"] == "numba_pool.pyramid"
    assert described.metadata["version"] == numba_pool.__version__
    for level, dataset in enumerate(described.datasets):
        scale, translation = dataset.coordinateTransformations
        assert dataset.path == str(level)
        assert scale.scale == [2.0 * 2**level, 0.5 * 2**level, 0.5 * 2**level]
        assert translation.translation == [(2**level - 1) / 2 * size for size in (2.0, 0.5, 0.5)]
        if version == "0.5":
            assert group[str(level)].metadata.dimension_names == ("z", "y", "x")
    assert not Path(f"{path}.unfinished").exists()


# ---- runs ------------------------------------------------------------------------------------------------------------


def test_a_scheduler_and_workers_of_two_shells(scheduler, tmp_path):
    out = script(tmp_path / "a.zarr", *SMALL, "--scheduler", scheduler)
    check(tmp_path / "a.zarr")
    size = np.prod(SIZE)
    assert f"level 0: {size / 1e6:,.1f} MB, read in" in out
    for level in range(1, LEVELS + 1):
        assert re.search(rf"level {level}: \d+\.\d MB, written in \d+\.\d\d s", out)
    regions = [int(n) for n in re.findall(r"tcp://\S+: (\d+) regions, busy \d+% of the time, peak memory \d+ MiB", out)]
    assert 1 <= len(regions) <= 2
    assert sum(regions) == REGIONS


@pytest.mark.parametrize(("version", "options", "key", "share"), [
    ("0.5", [], "2/c/0/1/2", 0),  # before the write: level 1 of the region is there
    ("0.4", ["--labels", "cells"], "labels/cells/1/2/2/3", 0.5),  # during the write
], ids=["before a write", "during a write"])
def test_a_worker_is_killed(scheduler, tmp_path, version, options, key, share):
    path, killed = tmp_path / "a.zarr", tmp_path / "killed"
    with Client(scheduler, timeout=40) as client:
        client.wait_for_workers(2, timeout=40)
        client.register_plugin(Killer(f"a.zarr/{key}", share, str(killed)))
        before = set(client.nthreads())
        script(path, *SMALL, "--version", version, *options, "--scheduler", scheduler)
        client.wait_for_workers(2, timeout=40)
        client.unregister_worker_plugin("killer")
        assert before - set(client.nthreads())  # one that was there is not there now
        assert set(client.run(who_writes).values()) == {"LocalStore.set"}  # later tests have workers as they were
    assert killed.exists()
    check(path, version, labels="--labels" in options)


def test_a_run_that_is_killed_goes_on_where_it_was(scheduler, tmp_path, capsys):
    """All of its processes at once, when one region is left; on other workers, and with the options it had."""
    path, marks = tmp_path / "a.zarr", tmp_path / "a.zarr.unfinished"
    process = command(tmp_path / "log", str(EXAMPLES / "pyramid_cluster.py"), str(path), *SMALL, "--version", "0.4",
                      STUCK_AT="a.zarr/2/0/0/0", DASK_DISTRIBUTED__WORKER__PRELOAD=str(Path(__file__)))
    try:
        wait_until(lambda: len(list(marks.glob("coarsen-*"))) == REGIONS - 1, process)
    finally:
        kill(process)
    assert not zarr.open_group(str(path), mode="r").attrs  # it is no image yet
    for options, message in ([SMALL, "exists already; --resume goes on with it"],
                             [["--resume", "--labels", "cells"], "was begun with other options"]):
        with pytest.raises(SystemExit, match="2"):
            pyramid_cluster.main([str(path), *options])
        assert message in capsys.readouterr().err
    out = script(path, "--resume", "--scheduler", scheduler)
    assert f"fill: {REGIONS} of {REGIONS} regions are there" in out
    assert f"coarsen: {REGIONS - 1} of {REGIONS} regions are there" in out
    check(path, "0.4")
    with pytest.raises(SystemExit, match="2"):
        pyramid_cluster.main([str(path), *SMALL])
    assert "exists already\n" in capsys.readouterr().err
    marks.mkdir()  # as if the run had been killed just before its end
    assert pyramid_cluster.main([str(path), "--resume"]) == 0
    assert capsys.readouterr().out == f"{path} is complete\n"
    assert not marks.exists()


def test_marks_of_an_image_that_was_removed_are_not_heeded(scheduler, tmp_path):
    marks = tmp_path / "a.zarr.unfinished"
    marks.mkdir()
    for name in [f"{task}-{n}" for task in ("fill", "coarsen") for n in range(REGIONS)]:
        (marks / name).write_text("null")
    (marks / "options.json").write_text('{"labels": "cells"}')
    script(tmp_path / "a.zarr", *SMALL, "--scheduler", scheduler)
    check(tmp_path / "a.zarr")


def test_a_scheduler_that_is_not_there(tmp_path):
    out = script(tmp_path / "a.zarr", "--scheduler", "tcp://127.0.0.1:1", status=1,
                 DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT="200ms")
    assert re.fullmatch(r"no workers: .* tcp://127\.0\.0\.1:1 .*\n", out)
    assert [each.name for each in tmp_path.iterdir()] == ["a.zarr.log"]


def threads_of_a_worker():
    """How many threads large work takes, and whether it started Numba's."""
    from numba_pool import _threads

    x = np.ones((64, 1024, 1024), np.uint8)
    assert (numba_pool.coarsen(x, 2) == 1).all()
    return numba_pool.get_num_threads(), _threads.layer(), numba_pool.show_config("dicts")["threads"]["because of"]


def test_workers_of_one_thread_start_no_others(scheduler):
    with Client(scheduler, timeout=40) as client:
        client.wait_for_workers(2, timeout=40)
        assert list(client.run(threads_of_a_worker).values()) == 2 * [(1, None, "OMP_NUM_THREADS")]


def test_functions_of_ones_own_go_to_workers(scheduler):
    most = 7

    @numba.njit
    def clipped(block):
        return min(block.sum(), most)

    x = np.arange(32).reshape(4, 8) - 14
    with Client(scheduler, timeout=40) as client:
        result = client.submit(numba_pool.coarsen, x, 2, clipped).result(timeout=40)
    np.testing.assert_array_equal(result, np.minimum(x.reshape(2, 2, 4, 2).sum((1, 3)), 7))


@pytest.mark.exhaustive
def test_speed_ups_are_printed(tmp_path):
    out = script(tmp_path / "a.zarr", *SMALL, "--compare")
    assert len(re.findall(r"speed-up \d+\.\d\d: \d+\.\d\d s, (?:one process|workers: [12])", out)) == 3
    check(tmp_path / "a.zarr")


# ---- without processes -----------------------------------------------------------------------------------------------


def test_half_a_mark_is_none(tmp_path, monkeypatch):
    monkeypatch.setattr(Path, "replace", lambda self, target: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        pyramid_cluster.once(dict, tmp_path / "coarsen-7")
    assert list(tmp_path.iterdir())
    assert not list(tmp_path.glob("coarsen-*"))


def test_a_region_that_is_not_aligned_is_refused(tmp_path):
    chunks, regions = pyramid_cluster.plan(SIZE, LEVELS, CHUNK, EDGE)
    ome_image.create(tmp_path / "a", SIZE, np.uint8, [(16,) * 3, chunks[1], (16,) * 3], "0.5", AXES)
    with pytest.raises(ValueError, match=r"must cover whole chunks of \(16, 16, 16\), got .*shape \(10, 9, 18"):
        pyramid_cluster.run(None, pyramid_cluster.coarsen, tmp_path / "a", regions, tmp_path / "marks", "mean")
    assert not list((tmp_path / "marks").iterdir())
    moved = regions[0]._replace(source=tuple(slice(2, 18) for _ in SIZE))
    with pytest.raises(ValueError, match=r"cover whole chunks of \(16, 16, 16\), got \(slice\(2, 18, None\)"):
        pyramid_cluster.fill(tmp_path / "a", moved, False)
    with pytest.raises(ValueError, match="region must begin at multiples of the factors"):
        pyramid_cluster.coarsen(tmp_path / "a", moved, "mean")


def test_first_elements_are_not_moved():
    image = ome_image.metadata("a", "0.5", AXES, [(1, 1, 1), (1, 2, 3)], "first")["ome"]["multiscales"][0]
    assert [list(each.values())[1] for each in image["datasets"][1]["coordinateTransformations"]] == [
        [2, 1, 1.5], [0, 0, 0]]
    image = ome_image.metadata("a", "0.4", AXES, [(1, 1, 1), (1, 2, 3)], "mean")["multiscales"][0]
    assert image["datasets"][1]["coordinateTransformations"][1]["translation"] == [0, 0.25, 0.5]


@pytest.mark.parametrize(("options", "message"), [
    (["--region", "100"], r"must be a multiple of 2\*\*levels, 8, and of the chunk, 64, got 100"),
    (["--levels", "0"], "--levels must be at least 1, got 0"),
    (["--size", "1", "0", "1"], r"--size must be at least 1, got \[1, 0, 1\]"),
    (["--compare", "--scheduler", "tcp://127.0.0.1:1"], "takes no --scheduler"),
])
def test_wrong_options(tmp_path, options, message, capsys):
    with pytest.raises(SystemExit, match="2"):
        pyramid_cluster.main([str(tmp_path / "a"), *options])
    assert re.search(message, capsys.readouterr().err)


def test_the_help_shows_defaults(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    with pytest.raises(SystemExit, match="0"):
        pyramid_cluster.main(["--help"])
    out = capsys.readouterr().out
    for option, default in (("size Z Y X", r"\[512, 512, 512\]"), ("levels N", 3), ("chunk N", 64), ("region N", 256),
                            ("version {0.4,0.5}", "0.5"), ("workers N", 2)):
        assert re.search(rf"--{option} .*default: {default}\n", out), option
