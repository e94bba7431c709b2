"""examples/pyramid_cluster.py of arrays that users bring: images and labels as OME-Zarr wants them."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest

import numba_pool

pytest.importorskip("distributed")
zarr = pytest.importorskip("zarr")
models = pytest.importorskip("ome_zarr_models")
from distributed import Client  # noqa: E402
from ome_zarr_models.v04 import labels as labels_04  # noqa: E402
from ome_zarr_models.v05 import labels as labels_05  # noqa: E402

EXAMPLES = Path(__file__).parents[1] / "examples"
sys.path.insert(0, str(EXAMPLES))
import pyramid_cluster  # noqa: E402

sys.path.remove(str(EXAMPLES))

RNG = np.random.default_rng(0)
PHOTO = RNG.integers(0, 256, (3, 50, 70), np.uint8)  # (C, H, W)
CELLS = np.kron(RNG.integers(0, 9, (10, 14)), np.ones((5, 5))).astype(np.uint32)
SMALL = ["--chunk", "8", "--region", "32", "--levels", "2"]


@pytest.fixture
def make(tmp_path, monkeypatch):
    """The example, by workers that are threads of this process. Returns the group that it wrote."""
    monkeypatch.setattr(pyramid_cluster, "connect", lambda *_: Client(processes=False, dashboard_address=None))

    def call(name, array, *options):
        np.save(tmp_path / "in.npy", array)
        assert pyramid_cluster.main([str(tmp_path / name), "--input", str(tmp_path / "in.npy"), *SMALL, *options]) == 0
        assert sorted(each.name for each in tmp_path.iterdir()) == [name, "in.npy"]  # no marks are left
        return zarr.open_group(tmp_path / name, mode="r")

    return call


def assert_levels(group, want):
    for level, expected in enumerate(want):
        assert group[str(level)].dtype == expected.dtype
        np.testing.assert_array_equal(group[str(level)][:], expected)


def described(group):
    """The checked description of an image, and whatever else stands beside it."""
    model = models.open_ome_zarr(group)
    about = model.attributes if model.ome_zarr_version == "0.4" else model.attributes.ome
    return about.multiscales[0], about


@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_an_image_with_channels(make, version):
    """Which stay as they are, one to a chunk; with the sizes and units of the microscope."""
    group = make("a.zarr", PHOTO, "--axes", "c", "y", "x", "--scale", "1", "0.25", "0.5", "--units", "none",
                 "micrometer", "nanometer", "--version", version)
    assert_levels(group, numba_pool.pyramid(PHOTO, {1: 2, 2: 2}, 2))
    assert [group[str(level)].chunks for level in range(3)] == [(1, 8, 8)] * 3
    image, _ = described(group)
    assert [(axis.name, axis.type, axis.unit) for axis in image.axes] == [
        ("c", "channel", None), ("y", "space", "micrometer"), ("x", "space", "nanometer")]
    assert [[list(each.model_dump().values())[1] for each in dataset.coordinateTransformations]
            for dataset in image.datasets] == [[[1, 0.25, 0.5], [0, 0, 0]], [[1, 0.5, 1], [0, 0.125, 0.25]],
                                               [[1, 1, 2], [0, 0.375, 0.75]]]


def test_arrays_of_zarr_and_images(make, tmp_path):
    """Both give the image that the same array in a file gives."""
    options = ["--axes", "t", "y", "x", "--reduction", "max"]
    first = make("a.zarr", PHOTO, *options)
    assert_levels(first, numba_pool.pyramid(PHOTO, {1: 2, 2: 2}, 2, "max"))
    assert [(axis.name, axis.type) for axis in described(first)[0].axes] == [
        ("t", "time"), ("y", "space"), ("x", "space")]
    for number, path in enumerate((tmp_path / "a.zarr" / "0", tmp_path / "a.zarr")):
        again = tmp_path / f"{number}.zarr"
        assert pyramid_cluster.main([str(again), "--input", str(path), *options, *SMALL]) == 0
        assert_levels(zarr.open_group(again, mode="r"), [first[str(level)][:] for level in range(3)])


@pytest.mark.parametrize(("version", "model"), [("0.4", labels_04), ("0.5", labels_05)])
def test_labels_of_an_image(make, version, model):
    """They are listed in the group `labels`, by name; they are the most frequent of each block, and name their image.
    """
    make("a.zarr", PHOTO, "--version", version)
    for name in ("nuclei", "cells"):
        group = make("a.zarr", CELLS, "--labels", name, "--version", version)
    assert_levels(group["labels/cells"], numba_pool.pyramid(CELLS, 2, 2, "mode"))
    listed = model.Labels.from_zarr(group["labels"]).attributes
    assert (listed if version == "0.4" else listed.ome).labels == ["cells", "nuclei"]
    image, about = described(group["labels/cells"])
    assert (image.name, image.type) == ("cells", "mode")
    assert about.image_label.source.image == "../../"
    assert described(group)[0].type == "mean"


def test_labels_without_an_image(make):
    group = make("a.zarr", CELLS, "--labels", "cells")
    assert "ome" not in group.attrs
    assert group["labels/cells"].attrs["ome"]["image-label"] == {}
    assert labels_05.Labels.from_zarr(group["labels"]).attributes.ome.labels == ["cells"]


def test_how_many_regions_there_are_is_said_beforehand(tmp_path, capsys):
    np.save(tmp_path / "in.npy", PHOTO)
    assert pyramid_cluster.main([str(tmp_path / "a"), "--input", str(tmp_path / "in.npy"), "--axes", "c", "y", "x",
                                 "--dry-run", *SMALL]) == 0
    regions = list(numba_pool.pyramid_regions(PHOTO.shape, {1: 8, 2: 8}, {1: 2, 2: 2}, 2))
    assert len(regions) == 3 * 2 * 3
    assert max(PHOTO[region.source].nbytes for region in regions) == 1024
    assert capsys.readouterr().out == "3 x 50 x 70 uint8, 10,500 bytes; regions: 18, of at most 1,024 bytes\n"
    assert [each.name for each in tmp_path.iterdir()] == ["in.npy"]


@pytest.mark.parametrize(("array", "options", "message"), [
    (PHOTO, ["--size", "1", "1", "1"], "--size is that of --input"),
    (PHOTO, ["--axes", "y", "x"], "there must be a name, a size and a unit for each axis, got"),
    (PHOTO, ["--axes", "y", "x", "c"], r"axes must be t for time and c for channels, .*, got \['y', 'x', 'c'\]"),
    (PHOTO, ["--axes", "z", "x", "x"], "axes must be t for time"),
    (PHOTO[0, 0], [], "axes must be t for time"),
    (PHOTO, ["--scale", "1", "0", "1"], r"elements must have a size above 0 along each axis, got \[1\.0, 0\.0, 1\.0\]"),
    (PHOTO.astype(np.float32), ["--labels", "cells"], "labels must be integers, got float32"),
    (CELLS, ["--labels", "a/b"], "labels must have the name of a folder, got 'a/b'"),
    (CELLS > 4, [], "levels must have the dtype of level 0, bool, whose mean is of float64"),
    (CELLS.astype(complex), [], "of floats, integers or bools, got complex128"),
    (None, [], r"is a group: pass one of its arrays, \['one'\]"),
])
def test_what_cannot_be_an_image(tmp_path, capsys, array, options, message):
    if array is None:
        zarr.create_group(tmp_path / "in.npy.zarr").create_array("one", shape=(4, 4), dtype="u1")
    else:
        np.save(tmp_path / "in.npy", array)
    source = next(tmp_path.iterdir())
    with pytest.raises(SystemExit, match="2"):
        pyramid_cluster.main([str(tmp_path / "a.zarr"), "--input", str(source), *options])
    assert re.search(message, capsys.readouterr().err)
    assert list(tmp_path.iterdir()) == [source]


def test_labels_of_another_shape_than_their_image(make, tmp_path, capsys):
    make("a.zarr", CELLS)
    with pytest.raises(SystemExit):
        make("a.zarr", CELLS[:-2], "--labels", "cells")
    assert f"labels must be as long as their image along y, {CELLS.shape[-2]}, got" in capsys.readouterr().err
    assert not (tmp_path / "a.zarr" / "labels").exists()


def test_labels_of_another_version_than_their_image(make, tmp_path, capsys):
    make("a.zarr", PHOTO, "--version", "0.4")
    with pytest.raises(SystemExit, match="2"):
        make("a.zarr", CELLS, "--labels", "cells")
    assert "labels must be of the version of their image, which 0.5 is not" in capsys.readouterr().err
    assert not (tmp_path / "a.zarr" / "labels").exists()
