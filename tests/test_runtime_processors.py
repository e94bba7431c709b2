"""How many threads the process may use, and that they are no burden: quotas, affinity, busy cores, neighbours."""

import math
import os
import re
import subprocess
import sys
import uuid
from pathlib import Path

import numba
import numpy as np
import pytest
import selection
from process import LAYERS, compiled_for, need, run
from work import Work

import numba_pool as nb
from numba_pool import _processors, _runtime, _threads
from numba_pool.kernels import _cache, _compile, _driver


def groups(tmp_path, membership, **files):
    """A faked tree of control groups."""
    for name, text in files.items():
        file = tmp_path / name.replace("__", "/").replace("_dot_", ".")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    own = tmp_path / "membership"
    own.write_text(membership)
    return _processors.quota(tmp_path, own)


V1 = "cpu__inner__cpu_dot_cfs_{}_us"


@pytest.mark.parametrize(("membership", "files", "expected"), [
    ("0::/\n", {"cpu_dot_max": "150000 100000\n"}, 1.5),
    ("0::/\n", {"cpu_dot_max": "max 100000\n"}, math.inf),
    ("0::/a/b\n", {"a__b__cpu_dot_max": "max 100000", "a__cpu_dot_max": "200000 100000"}, 2),  # of a group above
    ("0::/a/b\n", {"a__b__cpu_dot_max": "100000 100000", "a__cpu_dot_max": "200000 100000"}, 1),
    ("0::/host/path\n", {"cpu_dot_max": "300000 100000"}, 3),  # a container sees its own group as the root
    ("4:cpu,cpuacct:/inner\n", {V1.format("quota"): "50000", V1.format("period"): "100000"}, 0.5),
    ("4:cpu:/inner\n0::/\n", {V1.format("quota"): "-1", V1.format("period"): "100000"}, math.inf),
    ("4:cpuset:/inner\n", {V1.format("quota"): "50000", V1.format("period"): "100000"}, math.inf),  # not its group
    ("0::/\n", {"cpu_dot_max": "nonsense"}, math.inf),
    ("0::/\n", {"cpu_dot_max": "100000 0"}, math.inf),
    ("nonsense\n", {}, math.inf),
    ("0::/\n", {}, math.inf),
])
def test_quotas_of_control_groups(tmp_path, membership, files, expected):
    assert groups(tmp_path, membership, **files) == expected


def test_no_control_groups(tmp_path):
    assert _processors.quota(tmp_path, tmp_path / "missing") == math.inf


@pytest.mark.parametrize(("quota", "affinity", "expected"), [
    (math.inf, 8, 8), (1.5, 8, 2), (0.2, 8, 1), (16, 4, 4), (1, 1, 1),
])
def test_available_processors(monkeypatch, quota, affinity, expected):
    monkeypatch.setattr(_processors, "quota", lambda: quota)
    monkeypatch.setattr(_processors, "affinity", lambda: affinity)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert _processors.available() == expected


@pytest.mark.parametrize(("said", "expected"), [
    ("1", 1), (" 3 ", 3), ("2,4", 2), ("99", 8), ("", 8), ("0", 8), ("-1", 8), ("many", 8),
])
def test_openmp_limits_what_is_available(monkeypatch, said, expected):
    monkeypatch.setattr(_processors, "quota", lambda: math.inf)
    monkeypatch.setattr(_processors, "affinity", lambda: 8)
    monkeypatch.setenv("OMP_NUM_THREADS", said)
    assert _processors.available() == expected


def count_threads(available):
    _processors.available = lambda: available
    print(nb.get_num_threads(), end=" ")
    Work().check()
    with nb.threads(2):
        print(nb.get_num_threads(), end=" ")
    print(nb.get_num_threads(), end=" ")
    nb.set_num_threads(2)
    print(nb.get_num_threads(), numba.get_num_threads())


@pytest.mark.skipif(numba.config.NUMBA_DEFAULT_NUM_THREADS < 2, reason="one processor")
def test_processors_bound_what_nobody_chose():
    assert run(count_threads, 1, NUMBA_NUM_THREADS=None).split()[:4] == ["1", "2", "1", "2"]
    assert run(count_threads, 1, NUMBA_NUM_THREADS="2").split() == ["2"] * 5  # as the user says


def threads_and_layer(chosen=None):
    """Of large work, and whether it started Numba's threads."""
    if chosen:
        nb.set_num_threads(chosen)
    assert (nb.coarsen(np.ones((64, 512, 512), np.uint8), 2) == 1).all()
    print(nb.get_num_threads(), _threads.layer() is not None)


@pytest.mark.skipif(numba.config.NUMBA_DEFAULT_NUM_THREADS < 2, reason="one processor")
def test_where_one_thread_may_be_used_no_threads_are_started():
    """dask sets OMP_NUM_THREADS=1 for each of its worker processes."""
    assert run(threads_and_layer, NUMBA_NUM_THREADS=None, OMP_NUM_THREADS="1").split() == ["1", "False"]
    assert run(threads_and_layer, NUMBA_NUM_THREADS="1").split() == ["1", "False"]
    assert run(threads_and_layer, NUMBA_NUM_THREADS="2", OMP_NUM_THREADS="1").split() == ["2", "True"]
    assert run(threads_and_layer, 2, NUMBA_NUM_THREADS=None, OMP_NUM_THREADS="1").split() == ["2", "True"]


def real_quota():
    print(_processors.quota())


def test_a_real_quota():
    """Where this process may make control groups."""
    folder = Path("/sys/fs/cgroup/cpu") / f"numba_pool_{uuid.uuid4().hex[:8]}"
    try:
        folder.mkdir()
    except OSError:
        pytest.skip("no control groups of version 1 that can be made here")
    try:
        (folder / "cpu.cfs_period_us").write_text("100000")
        (folder / "cpu.cfs_quota_us").write_text("120000")
        joins = f"open({str(folder / 'cgroup.procs')!r}, 'w').write('0')"
        assert float(run(real_quota, before=joins)) == 1.2
    finally:
        folder.rmdir()


def test_losses_make_calls_serial_until_threads_are_worth_it_again(monkeypatch):
    now = [0]
    monkeypatch.setattr(_runtime, "perf_counter_ns", lambda: now[0])
    patience = _runtime.Patience()
    patience.note(-(10**12))  # savings make up for losses, but not for ever
    patience.note(patience.CREDIT)
    assert patience.lost == 0
    patience.note(patience.TOLERATED)
    assert patience.until == 0
    patience.note(1)
    first = patience.until
    assert first == patience.LEAST * (patience.TOLERATED + 1)
    rests = []
    for _ in range(6):  # tries in vain
        now[0] = patience.until
        patience.note(patience.TOLERATED + 1)
        rests.append(patience.until - now[0])
    assert rests[0] == 2 * first
    assert rests == sorted(rests)
    assert rests[-1] == patience.MOST * (patience.TOLERATED + 1)
    now[0] = patience.until
    patience.note(60_000_000_000)
    assert patience.until - now[0] == patience.LONGEST
    for _ in range(40):
        patience.note(-1)
    assert patience.rest == 0


def test_the_clock_is_the_better_one_where_there_is_doubt():
    patience = _runtime.Patience()
    assert {patience.clock() for _ in range(20)} == {_driver.SPENT}
    patience.note(-patience.CREDIT)
    assert [patience.clock() for _ in range(16)].count(_driver.SPENT) == 2
    patience.note(1)
    assert {patience.clock() for _ in range(20)} == {_driver.SPENT}


def chosen(monkeypatch, loss):
    """What a launch of large work runs, where the driver reports that loss."""

    def worker(lo, hi, args):
        return "worker"

    worker.parallel = lambda *args: ("driver", loss)
    monkeypatch.setattr(_runtime, "usable_threads", lambda: 2)
    monkeypatch.setattr(numba, "threading_layer", lambda: "omp")
    return _runtime.launch(worker, 8, 1 << 40)


def test_a_launch_heeds_losses(monkeypatch):
    monkeypatch.setattr(_runtime, "patience", _runtime.Patience())
    assert [chosen(monkeypatch, loss) for loss in (-5, 10**9, -5, -5)] == ["driver", "driver", "worker", "worker"]
    _runtime.patience.until = 1  # long ago
    assert [chosen(monkeypatch, -(10**9)) for _ in range(2)] == ["driver"] * 2


@pytest.mark.skipif(not _driver.CLOCKS, reason="no clocks on this system")
def test_the_driver_reports_what_waiting_cost(monkeypatch):
    """Ranges of one thread take no longer than that thread; a thread that has nothing to do is no loss."""
    monkeypatch.setattr(_cache, "CACHE_ON", False)

    def spin(lo, hi, turns):
        total = 0
        for i in range(turns * (hi - lo)):
            total += i ^ lo
        return total & 1

    kernel = _compile.worker(spin)
    kernel.parallel(1, 1, _driver.WALL, 4, (1000,))
    for clock in (_driver.WALL, _driver.SPENT):
        _, loss = kernel.parallel(1, 4, clock, 4, (1_000_000,))
        assert -1_000_000 < loss < 1_000_000_000


def environment_and_counts(first):
    """What other libraries see before and after pooling."""
    import torch

    if first == "torch":
        torch.ones(1 << 20).sum()
    before = dict(os.environ), torch.get_num_threads()
    nb.max_pool2d(np.ones((64, 16, 32, 32), np.float32), 2)
    nb.set_num_threads(2)
    print((dict(os.environ), torch.get_num_threads()) == before, torch.get_num_threads())


@pytest.mark.parametrize("layer", [*LAYERS, None])
@pytest.mark.parametrize("first", ["torch", "numba_pool"])
def test_other_libraries_keep_their_environment_and_threads(layer, first):
    pytest.importorskip("torch")
    if layer:
        need(layer)
    before = "import torch" if first == "torch" else "import numba_pool"
    for count in ("1", "2") if selection.exhaustive else ("2" if layer else "1",):  # each imports torch
        printed = run(environment_and_counts, first, layer=layer, before=before, OMP_NUM_THREADS=count)
        assert printed.split() == ["True", count]


def waiting_policy():
    """How OpenMP's threads wait, by what the library says when it starts."""
    nb.max_pool2d(np.ones((64, 16, 32, 32), np.float32), 2)


@pytest.mark.parametrize(("variables", "expected"), [
    ({}, "5000"), ({"GOMP_SPINCOUNT": "77"}, "77"), ({"OMP_WAIT_POLICY": "passive"}, "0"),
])
def test_waiting_is_brief_unless_the_user_chose(variables, expected):
    need("omp")
    from process import finish, start

    _, said = finish(start(waiting_policy, layer="omp", OMP_DISPLAY_ENV="verbose", **variables))
    if "GOMP_SPINCOUNT" not in said:
        pytest.skip("not GNU's OpenMP")
    assert f"GOMP_SPINCOUNT = '{expected}'" in said


def beside_burners():
    longest = _runtime.Patience.LONGEST
    work = Work()
    _runtime.Patience.LONGEST = longest  # serial and parallel by turns
    burners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(3)]
    try:
        print(work.check(20))
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()


@pytest.mark.parametrize("layer", LAYERS)
def test_the_same_bits_beside_busy_cores(layer):
    need(layer)
    assert int(run(beside_burners, layer=layer)) > 0


def test_config(capsys):
    config = nb.show_config("dicts")
    assert config["versions"]["numba_pool"] == nb.__version__
    assert config["threads"]["threads"] == nb.get_num_threads()
    assert config["threads"]["layer"] == numba.threading_layer()
    assert config["vectors"]["bytes"] in (16, 32, 64)
    width = "with" if config["vectors"]["bytes"] == 64 else "without"
    assert config["vectors"]["model"] == f"{_processors.model()}, {width} AVX-512"
    assert config["threads"]["processors by affinity"] == _processors.affinity()
    assert nb.show_config() is None
    printed = capsys.readouterr().out
    for heading, entries in config.items():
        assert f"{heading}:\n" in printed
        assert all(f"  {name}: " in printed for name in entries)
    with pytest.raises(ValueError, match="mode must be 'stdout' or 'dicts', got 'json'"):
        nb.show_config("json")


def print_config():
    nb.show_config()


# Each process is told several things that do not touch each other, and says each of them.
@pytest.mark.parametrize(("variables", "expected"), [
    ({"NUMBA_POOL_SERIAL": "1", "NUMBA_POOL_CACHE": "0", "NUMBA_POOL_MEMORY": "7", "GOMP_SPINCOUNT": "77",
      "NUMBA_CPU_NAME": "haswell", "NUMBA_CPU_FEATURES": "+avx2"},
     ["because of: NUMBA_POOL_SERIAL", "  on: False\n  written to: None", "limit in MiB: 7",
      "environment:\n(.*\n)*  GOMP_SPINCOUNT: 77",
      "processor: haswell\n  bytes: 32"]),
    ({"NUMBA_THREADING_LAYER": "workqueue", **compiled_for("generic")},
     ["layer because: NUMBA_THREADING_LAYER=workqueue", "processor: generic\n  bytes: 16"]),
    ({"NUMBA_NUM_THREADS": "1"}, ["because of: NUMBA_NUM_THREADS\n  layer: None"]),
    ({"NUMBA_NUM_THREADS": None, "OMP_NUM_THREADS": "1"}, ["because of: OMP_NUM_THREADS\n  layer: None"]),
], ids=str)
def test_config_says_what_was_chosen(variables, expected):
    said = run(print_config, **variables)
    for pattern in expected:
        assert re.search(pattern, said), pattern
