"""The example's data: IDX files good and bad, downloads from a local server, the bundled digits."""

import contextlib
import functools
import gzip
import hashlib
import http.server
import struct
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))

import data


def idx(array):
    return b"\0\0\x08" + bytes([array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def mnist_files(train=6, test=4, size=8, seed=0):
    rng = np.random.default_rng(seed)
    files = {}
    for part, count in (("train", train), ("t10k", test)):
        files[f"{part}-images-idx3-ubyte"] = idx(rng.integers(0, 256, (count, size, size), dtype=np.uint8))
        files[f"{part}-labels-idx1-ubyte"] = idx(rng.integers(0, 10, count, dtype=np.uint8))
    return files


def write(folder, files):
    for name, content in files.items():
        (folder / name).write_bytes(content)


@pytest.mark.parametrize("shape", [(3,), (0,), (2, 4, 5)])
@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_read_idx(tmp_path, shape, pack):
    array = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    path = tmp_path / "file"
    path.write_bytes(pack(idx(array)))
    read = data.read_idx(path)
    assert read.dtype == np.uint8
    np.testing.assert_array_equal(read, array)


GOOD = idx(np.arange(24, dtype=np.uint8).reshape(2, 3, 4))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (GOOD[:-1], r"truncated: 39 bytes, 40 expected for shape \(2, 3, 4\)"),
        (GOOD + b"x", "too long: 41 bytes, 40 expected"),
        (GOOD[:10], "truncated in its header: 10 of 16 bytes"),
        (b"", "not an IDX file"),
        (b"<html>404</html>", "not an IDX file of unsigned bytes: it starts with '3c 68 74 6d'"),
        (b"\0\0\x0d" + GOOD[3:], "not an IDX file of unsigned bytes"),
        (gzip.compress(GOOD, mtime=0)[:-9], "truncated or damaged gzip"),
        (b"\x1f\x8b" + b"nonsense" * 4, "file: "),
        (gzip.compress(GOOD, mtime=0)[:12] + b"\xff" * 30, "file: "),
    ],
)
def test_read_idx_says_what_is_wrong(tmp_path, content, message):
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(data.DataError, match=message) as error:
        data.read_idx(path)
    assert str(path) in str(error.value)


def test_read_idx_of_a_missing_file(tmp_path):
    with pytest.raises(data.DataError, match="No such file"):
        data.read_idx(tmp_path / "absent")


@pytest.mark.parametrize(
    "rename", [str, lambda n: n + ".gz", lambda n: n.replace("-idx", ".idx")], ids=["", "gz", "dot"]
)
def test_load_mnist(tmp_path, rename):
    files = mnist_files()
    for name, content in files.items():
        path = tmp_path / rename(name)
        path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    digits = data.load_mnist(tmp_path)
    assert digits.train_images.shape == (6, 1, 8, 8)
    assert digits.test_images.shape == (4, 1, 8, 8)
    assert digits.train_images.dtype == np.float32
    assert digits.train_labels.dtype == np.int64
    raw = np.frombuffer(files["train-images-idx3-ubyte"][16:], np.uint8).reshape(6, 8, 8)
    np.testing.assert_allclose(digits.train_images[:, 0], raw / 255, atol=1e-7)
    np.testing.assert_array_equal(digits.test_labels, list(files["t10k-labels-idx1-ubyte"][8:]))


@pytest.mark.parametrize(
    ("name", "array", "message"),
    [
        (
            "train-labels-idx1-ubyte",
            np.zeros(5, np.uint8),
            r"labels of shape \(5,\) do not fit images of shape \(6, 8, 8\)",
        ),
        ("t10k-labels-idx1-ubyte", np.full(4, 10, np.uint8), r"labels must be in 0\.\.9, got 10"),
        (
            "t10k-images-idx3-ubyte",
            np.zeros((4, 9, 9), np.uint8),
            r"training images are \(8, 8\), test images \(9, 9\)",
        ),
        ("train-images-idx3-ubyte", np.zeros((6, 64), np.uint8), r"images must have shape \(N, H, W\), got \(6, 64\)"),
        (
            "train-images-idx3-ubyte",
            np.zeros((0, 8, 8), np.uint8),
            r"images must have shape \(N, H, W\), got \(0, 8, 8\)",
        ),
    ],
)
def test_load_mnist_says_what_does_not_fit(tmp_path, name, array, message):
    write(tmp_path, mnist_files() | {name: idx(array)})
    with pytest.raises(data.DataError, match=message):
        data.load_mnist(tmp_path)


def test_load_mnist_names_the_missing_file(tmp_path):
    files = mnist_files()
    del files["t10k-labels-idx1-ubyte"]
    write(tmp_path, files)
    with pytest.raises(data.DataError, match=r"no t10k-labels-idx1-ubyte, with or without .gz"):
        data.load_mnist(tmp_path)


@contextlib.contextmanager
def serve(folder):
    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=folder)) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.fixture
def mirror(tmp_path):
    """A folder that is served, its address, and the checksums of what is in it."""
    folder = tmp_path / "mirror"
    folder.mkdir()
    files = {name: gzip.compress(content) for name, content in mnist_files().items()}
    write(folder, {f"{name}.gz": content for name, content in files.items()})
    with serve(folder) as url:
        yield folder, url, {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}


def test_download(tmp_path, mirror):
    _, url, checksums = mirror
    lines, target = [], tmp_path / "new" / "target"
    # the first mirror does not have the files
    data.download_mnist(target, [f"{url}/absent/", url], checksums, report=lines.append)
    assert sorted(path.name for path in target.iterdir()) == sorted(f"{name}.gz" for name in checksums)
    assert len(lines) == 8
    assert data.load_mnist(target).train_images.shape == (6, 1, 8, 8)
    data.download_mnist(target, ["http://127.0.0.1:9/"], checksums, report=lines.append)  # nothing is missing
    assert len(lines) == 8


def test_download_leaves_nothing_of_a_wrong_file(tmp_path, mirror):
    folder, url, checksums = mirror
    target = tmp_path / "target"
    name = next(iter(checksums))
    (folder / f"{name}.gz").write_bytes((folder / f"{name}.gz").read_bytes()[:-1])
    with pytest.raises(data.DataError, match=f"could not download {name}.gz:\n.*wrong checksum .* expected"):
        data.download_mnist(target, [url], checksums, report=lambda line: None)
    assert list(target.iterdir()) == []


def test_download_without_a_network(tmp_path):
    with pytest.raises(data.DataError, match=r"could not download train-images-idx3-ubyte.gz:\n.*http://127.0.0.1:9/"):
        data.download_mnist(tmp_path, ["http://127.0.0.1:9/"], report=lambda line: None)
    assert list(tmp_path.iterdir()) == []


def test_interrupted_writing_keeps_the_old_file(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def interrupted():
        with data.replacing(path) as file:
            file.write(b"new")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
    with data.replacing(path) as file:
        file.write(b"new")
    assert path.read_bytes() == b"new"


@pytest.fixture(scope="module")
def bundled():
    return data.load_bundled()


def test_bundled_digits_are_all_there_once(bundled):
    train, test = ({image.tobytes() for image in part} for part in (bundled.train_images, bundled.test_images))
    assert len(train) == len(bundled.train_labels) == 1442
    assert len(test) == len(bundled.test_labels) == 355
    assert not train & test  # no digit is in both
    assert bundled.train_images.min() == 0
    assert bundled.train_images.max() == 1
    assert np.bincount(bundled.test_labels).min() >= 34
    again = data.load_bundled()  # the split is a fixed one
    np.testing.assert_array_equal(again.test_images, bundled.test_images)


def test_subset(bundled):
    part = data.subset(bundled, 50, seed=3)
    assert part.train_images.shape == (50, 1, 8, 8)
    whole = {image.tobytes(): label for image, label in zip(bundled.train_images, bundled.train_labels, strict=True)}
    assert all(
        whole[image.tobytes()] == label for image, label in zip(part.train_images, part.train_labels, strict=True)
    )
    np.testing.assert_array_equal(part.test_images, bundled.test_images)
    np.testing.assert_array_equal(data.subset(bundled, 50, seed=3).train_labels, part.train_labels)
    assert not np.array_equal(data.subset(bundled, 50, seed=4).train_labels, part.train_labels)
    for count in (0, 1443):
        with pytest.raises(data.DataError, match=rf"--subset must be in 1\.\.1442 .* got {count}"):
            data.subset(bundled, count, seed=0)
