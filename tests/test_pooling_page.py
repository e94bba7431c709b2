"""The numbers in the tables of docs/pooling.md are right."""

import ast
import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

import numba_pool

PAGE = (Path(__file__).parents[1] / "docs" / "pooling.md").read_text(encoding="utf-8")


def table(heading):
    """Header and rows of the first table under a heading."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = re.search(r"(?:^\|.*\n)+", section, re.M)[0].splitlines()
    header, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
    return header, rows


def test_receptive_fields():
    _, rows = table("Receptive field")
    r = jump = alone = 1
    for layer, kernel, stride, shown_jump, shown, shown_alone in rows:
        r, jump = r + (int(kernel) - 1) * jump, jump * int(stride)
        assert (int(shown), int(shown_jump)) == (r, jump), layer
        alone += int(kernel) - 1 if layer.startswith("conv") else 0
        assert shown_alone == (str(alone) if layer.startswith("conv") else ""), layer
    assert len(rows) == 6


def test_output_sizes():
    (_, *lengths, _), rows = table("Output size")
    for call, *shown, _ in rows:
        arguments, ceil_mode = re.fullmatch(r"`(.*?)`( and `ceil_mode`)?", call).groups()
        for length, size in zip(lengths, shown, strict=True):
            shape = (1, int(length.removeprefix("n = ")))
            found = numba_pool.output_shape(numba_pool.max_pool1d, shape, *ast.literal_eval(arguments), bool(ceil_mode))
            assert found == (1, int(size)), (call, length)
    assert len(rows) == 8


def test_how_many_elements_get_a_gradient():
    digits = (load_digits().images / 16).astype(np.float32)[:, np.newaxis]
    drawn = np.random.default_rng(0).standard_normal((100, 1, 64, 64), np.float32)
    _, rows = table("Gradients of a max are sparse, but exact")
    for windows, *shown in rows:
        kernel, stride, padding = re.fullmatch(r"(\d)x\1, stride (\d)(?:, padding (\d))?", windows).groups("0")
        window = tuple(map(int, (kernel, stride, padding)))
        shares = [reached_by_max(x, window) for x in (digits, drawn)]
        ones = np.ones_like(numba_pool.avg_pool2d(digits, *window))
        shares.append(np.mean(numba_pool.avg_pool2d_backward(ones, digits.shape, *window) > 0))
        assert [float(share.removesuffix(" %")) for share in shown] == pytest.approx(np.multiply(shares, 100), abs=0.1)
    assert len(rows) == 4


def reached_by_max(x, window):
    y, indices = numba_pool.max_pool2d(x, *window, return_indices=True)
    return np.mean(numba_pool.max_pool2d_backward(np.ones_like(y), indices, x.shape) > 0)


def test_ties_of_digits():
    digits = load_digits().images
    windows = digits.reshape(-1, 4, 2, 4, 2).swapaxes(2, 3).reshape(-1, 4)
    ties = (windows == windows.max(1, keepdims=True)).sum(1) > 1
    share = int(re.search(r"digits,\s(\d+) % have a tie for the maximum, two thirds of them because all", PAGE)[1])
    assert share == round(100 * ties.mean())
    assert np.mean(windows[ties].max(1) == 0) == pytest.approx(2 / 3, abs=0.02)


def test_weights_of_vgg():
    convolutions, channels = 0, 3
    for features in (64, 64, 128, 128, 256, 256, 256, 512, 512, 512, 512, 512, 512):
        convolutions, channels = convolutions + (9 * channels + 1) * features, features
    head = (7 * 7 * 512 + 1) * 4096 + (4096 + 1) * 4096 + (4096 + 1) * 1000
    for count in (head, convolutions + head, (512 + 1) * 1000):
        assert f"{count:,}" in PAGE


# ---- pitfalls: each is as the page says


def row(*numbers, dtype=float):
    """One channel."""
    return np.array([numbers], dtype)


def test_pitfalls_of_windows():
    photo = np.zeros((480, 640, 3), np.uint8)
    assert numba_pool.output_shape(numba_pool.max_pool2d, photo.shape, 2) == (480, 320, 1)
    assert numba_pool.output_shape(numba_pool.max_pool2d, photo.shape, 2, channel_axis=-1) == (240, 320, 3)
    assert numba_pool.max_pool1d(row(1, 2, 3, 4, 5, 6), 3).tolist() == [[3, 6]]
    ones = np.ones((1, 3, 3))
    assert numba_pool.avg_pool2d(ones, 3, 1, 1)[0, 0, 0] == pytest.approx(4 / 9)
    assert numba_pool.avg_pool2d(ones, 3, 1, 1, count_include_pad=False)[0, 0, 0] == 1
    negative = row(-3, -1, -2, -4)
    assert numba_pool.max_pool1d(negative, 3, 1, 1).tolist() == [[-1, -1, -1, -2]]
    assert numba_pool.max_pool1d(np.pad(negative, ((0, 0), (1, 1))), 3, 1).tolist() == [[0, -1, -1, 0]]
    assert numba_pool.avg_pool1d(row(1, 1, 1), 2, ceil_mode=True).tolist() == [[1, 1]]
    assert numba_pool.sum_pool1d(row(1, 1, 1), 2, ceil_mode=True).tolist() == [[2, 1]]


def test_pitfall_of_half_a_pixel():
    places = row(0, 1, 2, 3, 4, 5)
    assert numba_pool.avg_pool1d(places, 2).tolist() == [[0.5, 2.5, 4.5]]
    peak = row(0, 0, 1, 0, 0)
    assert numba_pool.max_pool1d(peak, 2, 1, "same").tolist() == [[0, 1, 1, 0, 0]]
    assert numba_pool.max_pool1d(peak, 3, 1, "same").tolist() == [[0, 1, 1, 1, 0]]


def test_pitfalls_of_gradients():
    y, indices = numba_pool.max_pool1d(row(0, 0, 0, 0), 2, return_indices=True)
    _, of_another = numba_pool.max_pool1d(row(1, 2, 3, 4), 2, return_indices=True)
    assert indices.tolist() == [[0, 2]]
    assert numba_pool.max_pool1d_backward(np.ones_like(y), of_another, (1, 4)).tolist() == [[0, 1, 0, 1]]
    layers = {numba_pool.MaxPool1d(2): False, numba_pool.AvgPool1d(2): False, numba_pool.LPPool1d(2, 2): True}
    for layer, harmed in layers.items():
        right, edited = row(3, 4, 3, 4), row(3, 4, 3, 4)
        expected = layer.backward(np.ones_like(layer(right)))
        y = layer(edited)
        edited[:] = 0
        assert np.array_equal(layer.backward(np.ones_like(y)), expected) != harmed


def test_pitfalls_of_numbers():
    spoilt = row(1, np.nan, 2, 3)
    assert np.isnan(numba_pool.max_pool1d(spoilt, 2)).tolist() == [[True, False]]
    assert np.isnan(numba_pool.global_max_pool(spoilt[np.newaxis])).all()
    assert numba_pool.max_pool1d(spoilt, 2, nan_policy="omit").tolist() == [[1, 3]]
    assert numba_pool.avg_pool1d(row(1, 2, -1, -2, dtype=np.int64), 2).tolist() == [[1, -1]]
    assert numba_pool.coarsen(np.array([1, 2, -1, -2]), 2).tolist() == [2, -2]
    sentence = np.array([[[2.0, 4, 0, 0]]])
    assert numba_pool.global_avg_pool(sentence).item() == 1.5
    assert numba_pool.global_avg_pool(sentence, where=sentence > 0).item() == 3
