"""examples/larger_than_memory.py: a process of its own, whose memory is measured."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import numba_pool

pytest.importorskip("distributed")
zarr = pytest.importorskip("zarr")

EXAMPLES = Path(__file__).parents[1] / "examples"


def test_the_memory_it_takes_is_less_than_a_quarter_of_the_volume(tmp_path):
    path = tmp_path / "volume.zarr"
    command = [sys.executable, str(EXAMPLES / "larger_than_memory.py"), str(path), "--gib", "0.25", "--region", "128"]
    out = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True).stdout
    for line in ("volume, written", "copy, of its files", "pyramid, 4 levels"):
        assert re.search(rf"{line}: \d+\.\d s, [\d,]+ MB/s", out)
    peak, before = map(int, re.search(r"peak memory: (\d+) MiB, of which (\d+) before it began", out).groups())
    assert out.count("100% Completed") >= 2

    volume = zarr.open_array(path / "0", mode="r")
    assert before < peak < before + volume.nbytes / 2**20 / 4
    assert sorted(each.name for each in path.iterdir()) == [*"01234", "zarr.json"]
    want = numba_pool.pyramid(volume[:], levels=4)
    for level in range(1, 5):
        np.testing.assert_array_equal(zarr.open_array(path / str(level), mode="r")[:], want[level])
    assert len(zarr.open_group(path, mode="r").attrs["ome"]["multiscales"][0]["datasets"]) == 5
    assert subprocess.run(command, capture_output=True, text=True, timeout=60).stderr.endswith("exists already\n")


@pytest.mark.parametrize(("option", "value", "message"), [
    ("--region", "100", "--region: the edge of a region must be a multiple of 2**levels, 16, "),
    ("--region", "0", "--region must be positive, got 0"),
    ("--gib", "nan", "--gib must be positive, got nan"),
    ("--help", "", "--region N   voxels an edge, default: 256\n"),
])
def test_options(tmp_path, option, value, message):
    command = [sys.executable, str(EXAMPLES / "larger_than_memory.py"), str(tmp_path / "a"), option, value]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert run.returncode == (0 if option == "--help" else 2)
    assert message in run.stdout + run.stderr
    assert not (tmp_path / "a").exists()
