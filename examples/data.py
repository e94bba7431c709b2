"""Handwritten digits: MNIST from its IDX files, or the 8x8 digits that scikit-learn bundles."""

import contextlib
import gzip
import hashlib
import http.client
import os
import struct
import urllib.request
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

MIRRORS = (
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
)
SHA256 = {
    "train-images-idx3-ubyte": "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
    "train-labels-idx1-ubyte": "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
    "t10k-images-idx3-ubyte": "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
    "t10k-labels-idx1-ubyte": "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
}  # of the files as they are downloaded, with .gz
BUNDLED = "scikit-learn's bundled digits"


class DataError(ValueError):
    """A data file is missing, damaged or not what its name says."""


@dataclass
class Digits:
    """Images (N, 1, H, W) float32 in [0, 1], channels last in memory; labels int64 in 0..9."""

    name: str
    train_images: np.ndarray
    train_labels: np.ndarray
    test_images: np.ndarray
    test_labels: np.ndarray


def read_idx(path):
    """The array of uint8 in an IDX file, gzipped or not.

    The format is a magic number 0x0000tttt with the type (8: unsigned byte) and the number of axes, one big-endian
    32-bit length for each, then the elements in C order.
    """
    path = Path(path)
    try:
        content = path.read_bytes()
        if content[:2] == b"\x1f\x8b":
            content = gzip.decompress(content)
    except OSError as error:  # BadGzipFile is one
        raise DataError(f"{path}: {error.strerror or error}") from error
    except (EOFError, zlib.error) as error:
        raise DataError(f"{path}: truncated or damaged gzip file ({error})") from error
    if len(content) < 4 or content[:3] != b"\0\0\x08" or not 1 <= content[3] <= 4:
        raise DataError(f"{path}: not an IDX file of unsigned bytes: it starts with {content[:4].hex(' ')!r}")
    header = 4 + 4 * content[3]
    if len(content) < header:
        raise DataError(f"{path}: truncated in its header: {len(content)} of {header} bytes")
    shape = struct.unpack(f">{content[3]}I", content[4:header])
    expected = header + int(np.prod(shape, dtype=np.int64))
    if len(content) != expected:
        problem = "truncated" if len(content) < expected else "too long"
        raise DataError(f"{path}: {problem}: {len(content)} bytes, {expected} expected for shape {shape}")
    return np.frombuffer(content, np.uint8, offset=header).reshape(shape)


def _find(folder, stem):
    """The file of this name in `folder` or None; .gz or not, with the dash or the dot that some copies have."""
    names = (name + end for name in (stem, stem.replace("-idx", ".idx")) for end in ("", ".gz"))
    return next((folder / name for name in names if (folder / name).is_file()), None)


def _read_pair(folder, part):
    stems = [f"{part}-images-idx3-ubyte", f"{part}-labels-idx1-ubyte"]
    images_path, labels_path = paths = [_find(folder, stem) for stem in stems]
    if None in paths:
        missing = stems[paths.index(None)]
        raise DataError(f"{folder}: no {missing}, with or without .gz (--download fetches MNIST's four files)")
    images, labels = read_idx(images_path), read_idx(labels_path)
    if images.ndim != 3 or images.size == 0:
        raise DataError(f"{images_path}: images must have shape (N, H, W), got {images.shape}")
    if labels.shape != images.shape[:1]:
        raise DataError(f"{labels_path}: labels of shape {labels.shape} do not fit images of shape {images.shape}")
    if labels.max() > 9:
        raise DataError(f"{labels_path}: labels must be in 0..9, got {labels.max()}")
    return _as_floats(images, 255), labels.astype(np.int64)


def _as_floats(images, top):
    scaled = np.asarray(images, np.float32) / np.float32(top)
    return np.moveaxis(scaled[..., np.newaxis], -1, 1)


def load_mnist(folder):
    """MNIST, or anything in its format, from the four IDX files in `folder`."""
    folder = Path(folder)
    if not folder.is_dir():
        raise DataError(f"{folder}: no such folder (--download makes it, and fetches MNIST's four files)")
    train_images, train_labels = _read_pair(folder, "train")
    test_images, test_labels = _read_pair(folder, "t10k")
    if train_images.shape[2:] != test_images.shape[2:]:
        raise DataError(f"{folder}: training images are {train_images.shape[2:]}, test images {test_images.shape[2:]}")
    return Digits(f"MNIST files in {folder}", train_images, train_labels, test_images, test_labels)


def load_bundled():
    """scikit-learn's 1,797 digits of 8x8 pixels, about a fifth of each class for the test: always the same ones."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    images, labels = _as_floats(images.reshape(-1, 8, 8), 16), labels.astype(np.int64)
    rng = np.random.default_rng(0)  # the split is part of the data set: it does not depend on --seed
    test = np.zeros(len(labels), bool)
    for digit in range(10):
        members = rng.permutation(np.flatnonzero(labels == digit))
        test[members[: len(members) // 5]] = True
    train = ~test
    return Digits(BUNDLED, _pick(images, train), labels[train], _pick(images, test), labels[test])


def _pick(images, chosen):
    return np.moveaxis(np.moveaxis(images, 1, -1)[chosen], -1, 1)


def subset(digits, count, seed):
    """The same with `count` training examples, drawn by `seed`; the test examples stay."""
    total = len(digits.train_labels)
    if not 1 <= count <= total:
        raise DataError(f"--subset must be in 1..{total} for {digits.name}, got {count}")
    chosen = np.sort(np.random.default_rng(seed).permutation(total)[:count])
    return Digits(
        digits.name,
        _pick(digits.train_images, chosen),
        digits.train_labels[chosen],
        digits.test_images,
        digits.test_labels,
    )


def download_mnist(folder, mirrors=MIRRORS, checksums=SHA256, report=print, timeout=30):
    """Fetch those of the four files that `folder` lacks; a file appears there only when it is complete and verified."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for stem, checksum in checksums.items():
        if _find(folder, stem):
            continue
        failures = []
        for mirror in mirrors:
            url = f"{mirror.rstrip('/')}/{stem}.gz"
            report(f"downloading {url}")
            try:
                _fetch(url, folder / f"{stem}.gz", checksum, timeout)
                break
            except (OSError, http.client.HTTPException, DataError) as error:
                failures.append(f"  {url}: {error}")
        else:
            raise DataError("\n".join([f"could not download {stem}.gz:", *failures]))


def _fetch(url, path, checksum, timeout):
    digest = hashlib.sha256()
    with replacing(path) as file, urllib.request.urlopen(url, timeout=timeout) as answer:
        while block := answer.read(1 << 16):
            digest.update(block)
            file.write(block)
        if digest.hexdigest() != checksum:
            raise DataError(f"wrong checksum {digest.hexdigest()}, {checksum} expected")


@contextlib.contextmanager
def replacing(path):
    """A file to write that becomes `path` when the block ends, and that is gone when the block fails."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with open(partial, "wb") as file:
            yield file
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
