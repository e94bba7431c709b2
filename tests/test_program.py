"""Programs, stages and bands, carried out in plain Python: no kernel is compiled.

The interpreter does what `pool_rows` and `by_stages` do with the tables, on memory that notes which elements of the
plane each place stands for. What it finds has to be what plain loops over windows say.
"""

import itertools

import numpy as np
import pytest
import reference

from numba_pool._windows import POINT, Axis, adaptive_axis, uniform_axis
from numba_pool.kernels import _stages
from numba_pool.kernels._job import Windows
from numba_pool.kernels._program import (
    APART,
    AT,
    COLUMNS,
    COUNT,
    HEADER,
    LIST,
    LONG,
    NINE,
    OUT,
    ROW,
    ROW_AT,
    ROW_LISTS,
    ROW_TAPS,
    ROW_WIDTH,
    ROWS,
    RUN,
    STEP,
    TAPS,
    WIDE,
    WIDTH,
    program,
)
from numba_pool.kernels._stages import bands_of, levels, stages_of

# Windows along an axis, twice: as the package has them, and as pairs of (elements, divisor's factor) by plain loops.


def uniform(size, k, s, before, after, d, ceil_mode, include=True):
    """None if there are no such windows."""
    n = reference.output_length(size, k, s, before, after, d, ceil_mode)
    if n < 1:
        return None
    windows, = reference.sliding((size,), k, s, ((before, after),), d, ceil_mode)
    return (uniform_axis(size, n, k, s, (before, after), d, include),
            [(taps, padded if include else len(taps)) for taps, padded in windows])


def adaptive(size, n):
    windows, = reference.adaptive((size,), n)
    return adaptive_axis(size, n), windows


def inverted(along):
    """For each element the windows that hold it."""
    axis, windows = along
    return axis.inverse, [([o for o, (taps, _) in enumerate(windows) if i in taps], 1) for i in range(axis.size)]


def along_an_axis(rng, longest, gradient):
    """Windows of any kind."""
    while True:
        size = rng.integers(1, longest + 1)
        if rng.random() < 0.25:
            found = adaptive(size, rng.integers(1, longest + 1))
        else:
            k, s = rng.integers(1, 6 if rng.random() < 0.7 else 2 * longest), rng.integers(1, 5)
            d = 1 if gradient or rng.random() < 0.6 else rng.integers(2, 2 * longest)
            pads = rng.integers(0, d * (k - 1) + 1, 2) * (rng.random(2) < 0.6)
            found = uniform(*map(int, (size, k, s, *pads, d)), rng.random() < 0.3, rng.random() < 0.5)
        if found is not None and found[0].n <= 3 * longest:
            return inverted(found) if gradient else found


def along_all(rng, gradient=False):
    """(axes, windows) along D, H and W, of one to three axes."""
    rank = rng.integers(1, 4)
    point = POINT, [([0], 1)]
    found = [*[point] * (3 - rank), *(along_an_axis(rng, (30, 12, 6)[rank - 1], gradient) for _ in range(rank))]
    return tuple(axis for axis, _ in found), [windows for _, windows in found]


def expected(axes, windows, by_columns=False):
    """For each window: its pixels in order, rows, columns, and the factor of the divisor."""
    _, height, width = axes
    for (d, a), (h, b), (w, c) in itertools.product(*windows):
        pixels = [(i * height.size + j) * width.size + k for i, j, k in itertools.product(d, h, w)]
        if by_columns:
            pixels = [(i * height.size + j) * width.size + k for k, i, j in itertools.product(w, d, h)]
        yield pixels, len(d) * len(h), len(w), a * b * c


def carried_out(table, start, lo, hi, sizes, begin):
    """Rows [lo, hi) of the program at `start`: for each result (its place in y, that of its first tap in x, places of
    all taps in x, their pixels, rows, columns, factor). As `pool_rows` takes them, `begin` are the elements of x and y
    that pixels are counted from, and `sizes` the elements of a pixel of x, and of y. One channel is walked.
    """
    (at, to), (E, F) = begin, sizes
    columns, rows = table[start + COLUMNS], table[start + ROWS]
    assert (rows - start - HEADER) % RUN == 0
    for run in range(start + HEADER, rows, RUN):
        numbers = table[run : run + RUN].tolist()
        for row in range(lo, hi):
            line = table[rows + row * ROW : rows + (row + 1) * ROW].tolist()
            first = numbers[LIST] + line[ROW_LISTS]
            assert 0 <= first <= len(table) - NINE  # nine taps are read at once
            taps = line[ROW_TAPS] * numbers[TAPS]
            hops = table[first : first + taps].tolist()
            assert len(hops) == taps
            for i, lane in itertools.product(range(numbers[COUNT]), range(numbers[WIDE])):
                spot = numbers[AT] + line[ROW_AT] + i * numbers[STEP]
                out = to + (row * columns + numbers[OUT] + i * numbers[APART]) * F + lane
                yield (out, [at + (spot + hop) * E + lane for hop in hops], [spot + hop for hop in hops],
                       line[ROW_TAPS], numbers[TAPS], line[ROW_WIDTH] * numbers[WIDTH])


@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("by_columns", [False, True])
def test_programs(by_columns, flat):
    """Every window is there once, with its elements in order; wherever the program stands in a table."""
    rng = np.random.default_rng(by_columns + 2 * flat)
    lanes = set()
    for n in range(400):
        axes, windows = along_all(rng, gradient=n % 4 == 0)
        begin = int(rng.integers(0, 3)) * 7
        table = np.concatenate((np.full(begin, -(10**9)), program(axes, by_columns, flat, begin)))
        results = {out: found for out, *found in carried_out(table, begin, 0, axes[0].n * axes[1].n, (1, 1), (0, 0))}
        lanes.update(table[begin + HEADER + WIDE : table[begin + ROWS] : RUN].tolist())
        wanted = list(expected(axes, windows, by_columns))
        assert sorted(results) == list(range(len(wanted)))
        for out, one in enumerate(wanted):
            elements, pixels, *shape, factor = results[out]
            assert elements == one[0]
            assert flat or pixels == one[0]
            assert not one[0] or shape == [*one[1:3]]
            assert factor == one[3]
    assert (max(lanes) > 1) == flat


def test_windows_that_are_walked_as_one():
    """In pieces: the last of them is the rest."""
    axis, windows = uniform(2 * LONG + 3, 3, 1, 0, 0, 1, False)
    table = program((POINT, POINT, axis), False, True)
    assert table[HEADER + WIDE : table[ROWS] : RUN].tolist() == [LONG, LONG, 1]
    found = {out: taps for out, taps, *_ in carried_out(table, 0, 0, 1, (1, 1), (0, 0))}
    assert [found[o] for o in range(axis.n)] == [taps for taps, _ in windows]


def added(items):
    """A sum, told by what is added up in which order. A sum of one is that itself, and nothing changes no sum."""
    items = [item for item in items if item is not None]
    return None if not items else items[0] if len(items) == 1 else tuple(items)


def reduced(summed, values, tall, wide):
    """What becomes of the elements of a window: their sum, or a list of all, in the order in which they are met."""
    if not summed:
        return list(dict.fromkeys(itertools.chain(*values)))  # the first of equals is the one that is met first
    return added([added(values[i : i + tall]) for i in range(0, len(values), tall or 1)])


def pooled(job, band, programs, table, read, begin, sizes, carried=False):
    """The stages of a band, as `pool_band` runs them: {place in y: (what the window was made of, its divisor's
    factor)}. `read` is what stands in x, by places; it has indices if they are `carried`.
    """
    (at, to), (E, F), last = begin, sizes, len(table) - 1
    for stage, (start, _, made, rows) in enumerate(table.tolist()):
        first, count = band[2 + 2 * stage : 4 + 2 * stage]
        assert 0 < count <= rows
        target, size = (to, F) if stage == last else (-first * made, 1)
        written = {}
        for out, taps, places, tall, wide, factor in carried_out(programs, start, first, first + count, (E, size),
                                                                 (at, target)):
            assert out not in written
            assert stage == last or 0 <= out < rows * made
            if stage == 0 and job.indexed and not carried:  # the places become the indices
                assert all(tap == at + place * E for tap, place in zip(taps, places, strict=True))
            written[out] = reduced(job.summed, [read[tap] for tap in taps], tall, wide), factor
        at, E, read = target, size, {out: value for out, (value, _) in written.items()}
    return written


class Stages:
    """The stages of a job, carried out as `by_stages` and `one_stage` do."""

    def __init__(self, job, most, whole):
        self.job, self.stages = job, stages_of(job)
        # The elements of a pixel, and the first of them that is walked: all, or one channel of three.
        self.pixel, self.channel = (1, 0) if whole else (3, 1)
        self.tables = bands_of(job, self.stages, most, whole)

    def band(self, band):
        """For each window of a band what it was made of, and the factor of its divisor."""
        (programs, table, _), (depth, height, width), (first, count) = self.tables, self.stages[0], band[:2]
        assert count > 0
        assert 0 <= first <= first + count <= depth.size * height.size
        for (d, h, _), at, many in zip(self.stages, band[2::2], band[3::2], strict=True):
            assert 0 <= at <= at + many <= d.n * h.n
        pixels = range(first * width.size, (first + count) * width.size)
        read = {self.channel + i * self.pixel: i if self.job.summed else [i] for i in pixels}
        return pooled(self.job, band, programs, table, read, (self.channel, self.channel), (self.pixel, self.pixel))

    def check(self, windows):
        depth, height, _ = self.job.axes
        rows, found = [], {}
        for band in self.tables.bands.tolist():
            assert len(band) == 2 + 2 * len(self.stages)
            rows += range(band[-2], band[-2] + band[-1])
            found.update(self.band(band))
        assert rows == list(range(depth.n * height.n))
        wanted = list(expected(self.job.axes, windows, self.job.summed))
        assert sorted(found) == [self.channel + o * self.pixel for o in range(len(wanted))]
        for o, (pixels, tall, wide, factor) in enumerate(wanted):
            value, by = found[self.channel + o * self.pixel]
            # Row by row, so that the first of equals is the winner; or what is added up in which order.
            assert value == (reduced(True, pixels, tall, wide) if self.job.summed else pixels)
            assert not self.job.summed or by == factor


def job_of(axes, reduction, dtype="float32", gradient=False):
    job = Windows(axes, (1, 16, *(axis.size for axis in axes)), 3, True, reduction, np.dtype(dtype), gradient=gradient)
    job.walk(axes)
    return job


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("reduction", ["max", "argmax", "average"])
@pytest.mark.parametrize("most_stages", [False, True])
def test_stages(most_stages, reduction, dtype, monkeypatch):
    """In as few bands as possible, or in many; in the stages that are the quicker, or in as many as there are."""
    if most_stages:
        monkeypatch.setattr(_stages, "cost", lambda stages, first, stored: -len(stages))
        monkeypatch.setattr(_stages, "STORED", -NINE)  # levels, however short windows are
    monkeypatch.setattr(_stages, "MOST_TWICE", NINE)  # bands of few rows, however many of these are in two bands
    rng = np.random.default_rng(len(reduction) + 10 * most_stages)
    counts, bands = set(), set()
    for n in range(150):
        gradient = reduction == "average" and n % 3 == 0
        axes, windows = along_all(rng, gradient)
        most = int(rng.choice((1, 20, 100, 10**6)))
        stages = Stages(job_of(axes, reduction, dtype), most, bool(rng.random() < 0.5))
        stages.check(windows)
        counts.add(len(stages.stages))
        bands.add(len(stages.tables.bands))
    assert max(bands) > 5
    assert max(counts) >= (2 + (dtype == "float16" and reduction != "argmax") if most_stages else 2)


def made_of(axis):
    """For each window the elements of the level before that it joins."""
    hops, which = axis.distances
    assert (axis.start >= 0).all()
    return [(hops[i] + start).tolist() for start, i in zip(axis.start.tolist(), which.tolist(), strict=True)]


def irregular(rng, k, d):
    """Windows that begin anywhere and have k elements, or fewer."""
    size = int(rng.integers(1, 3 * k * d))
    start = rng.integers(0, size, 20)
    stop = np.minimum(start + d * rng.integers(rng.integers(1, k + 1), k + 1, 20), size)
    axis = Axis(size, start, stop, d, np.ones_like(start), 0, 0, 0)
    return axis, [(list(range(first, last, d)), 1) for first, last in zip(start.tolist(), stop.tolist(), strict=True)]


@pytest.mark.parametrize("stored", [_stages.STORED, -500], ids=("where they are worth it", "all that there can be"))
def test_levels(stored, monkeypatch):
    """Windows of windows hold what the windows hold, in the same order."""
    monkeypatch.setattr(_stages, "STORED", stored)
    rng, counts = np.random.default_rng(0), []
    for _ in range(200):
        k, s, d = (int(rng.integers(1, most)) for most in (201, 4, 4))
        kind = rng.random()
        if kind < 0.2:
            size = int(rng.integers(1, 2000))
            axis, windows = adaptive(size, int(rng.integers(1, 1 + size)))
        elif kind < 0.4:
            axis, windows = irregular(rng, k, d)
        else:
            pads = (rng.integers(0, d * (k - 1) + 1, 2) * (rng.random(2) < 0.5)).tolist()
            size = d * (k - 1) + 1 + int(rng.integers(-sum(pads), 400))
            axis, windows = uniform(max(size, 1), k, s, *pads, d, rng.random() < 0.3)
        made = levels(axis)
        if made is None:
            counts.append(0)
            continue
        held = [[i] for i in range(axis.size)]
        for level in made:
            assert level.size == len(held)
            assert len(made) == 1 or level.most <= NINE
            held = [list(dict.fromkeys(itertools.chain(*(held[i] for i in window)))) for window in made_of(level)]
        assert held == [taps for taps, _ in windows]
        assert level.n == axis.n
        counts.append(len(made))
    assert min(counts.count(n) for n in (2, 3)) > 20


def test_levels_of_windows_that_no_border_clips():
    """All windows of a stage have the same length, and lie inside."""
    counts = set()
    for k, d in itertools.product((2, 13, 40, 82, 200, 730), (1, 2, 5)):
        size = (k - 1) * d + 300
        axis, windows = uniform(size, k, 1, 0, 0, d, False)
        made = levels(axis, clipped=False)
        counts.add(len(made))
        held = [[i] for i in range(size)]
        for level in made:
            assert level.size == len(held)
            assert len(set(level.lengths.tolist())) == 1
            held = [list(dict.fromkeys(itertools.chain(*(held[i] for i in window)))) for window in made_of(level)]
        assert held == [taps for taps, _ in windows]
    assert counts == {1, 2, 3, 4}


def test_how_many_levels():
    """Of windows of two to nine shorter ones; none where windows are empty, too long, or of lengths too different."""
    def along(k, size=20_000, **others):
        return levels(uniform_axis(size, size - k + 1, k, 1, (0, 0), 1, False).replaced(**others))

    assert [len(along(k)) for k in (1, 10, 11, 81, 82, 729, 730, 9**4, 9**4 + 1)] == [1, 1, 2, 2, 3, 3, 4, 4, 5]
    assert [[level.most for level in along(k)] for k in (13, 200)] == [[4, 4], [6, 6, 6]]
    assert along(9**7 + 1, 9**7 + 20_000) is None
    start = np.arange(300)
    assert len(along(20, 600, start=start, stop=start + 20)) == 2
    for short in (0, 3):
        stop = start + np.where(start == 200, short, 20)
        assert along(20, 600, start=start, stop=stop) is None
    assert along(20, 600, start=start, stop=start + np.where(start == 0, 0, 20)) is None
    axis = uniform_axis(5, 99_986, 100_000, 1, (99_990, 99_990), 1, False)
    assert [one.longest for one in levels(axis)] == [5]  # hardly longer than they are when they are clipped


@pytest.mark.parametrize("reduction", ["max", "argmax", "average"])
@pytest.mark.parametrize(("size", "kernel"), [
    ((20_000, 8), (3, 3)),
    ((8, 20_000), (3, 3)),
    ((20_000, 8), (31, 7)),
    ((8, 20_000), (7, 31)),
    ((20_000, 1), (10_001, 1)),
    ((1, 20_000), (1, 10_001)),
    ((200, 200), (101, 101)),
], ids=str)
def test_tables_are_small(size, kernel, reduction):
    """They grow with rows of windows, and with windows that are clipped; not with windows, nor with what these hold."""
    axes = [uniform_axis(n, n, k, 1, (k // 2, k // 2), 1, False) for n, k in zip(size, kernel, strict=True)]
    job = job_of((POINT, *axes), reduction)
    stages = stages_of(job)
    tables = bands_of(job, stages, 100_000)
    rows = sum(d.n * h.n for d, h, _ in stages)
    assert tables.bands.size <= 2 * (1 + len(stages)) * size[0]
    assert tables.programs.size <= ROW * rows + 2 * RUN * kernel[1] + NINE * max(kernel) + 30_000


def test_bands_are_as_few_as_they_may_be():
    """Not many rows are in two of them; and where a plane fits, there is one."""
    axes = tuple(uniform_axis(n, n, 21, 1, (10, 10), 1, False) for n in (200, 30))
    job = job_of((POINT, *axes), "max")
    stages = stages_of(job)
    one, some = (bands_of(job, stages, most).bands for most in (10**6, 1))
    assert len(one) == 1 < len(some) < 200
    assert one[:, 1:-2:2].sum() < some[:, 1:-2:2].sum() <= _stages.MOST_TWICE * one[:, 1:-2:2].sum()
