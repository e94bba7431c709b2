"""Windows along rows and down columns, carried out in plain Python as `kernels.rows` does: no kernel is compiled."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from test_program import along_all, expected, pooled, reduced, uniform

from numba_pool._windows import POINT
from numba_pool.kernels import _stages, rows, taps
from numba_pool.kernels._job import Windows
from numba_pool.kernels._program import AT, HEADER, LIST, NINE, OUT, ROWS, RUN, TAPS, WIDE
from numba_pool.kernels._stages import STAGE_AT, STAGE_MADE, bands_of, stages_of
from numba_pool.kernels.rows import ALIKE, COLUMN, COLUMNS, COLUMNS_APART, WINDOW, WINDOWS, WINDOWS_APART, Across
from numba_pool.simd import LANES

SIZES = ("E", "W", "OW", "R", "M", "together", "most_taken", "most_given", "most_read", "most_made")


def job_of(axes, reduction, shape=(1, 1), last=False, gradient=False, windows=None):
    job = Windows(windows or axes, (*shape, *(axis.size for axis in axes)), 3, last, reduction, gradient=gradient)
    job.walk(axes)
    return job


def flat(value):
    """All elements of a sum, in no order."""
    return sorted(itertools.chain(*map(flat, value))) if isinstance(value, tuple) else [] if value is None else [value]


def with_elements(value, of):
    """A sum of rows, as the sum of an element of each."""
    return tuple(with_elements(v, of) for v in value) if isinstance(value, tuple) else None if value is None else (
        of[value])


class Walked:
    """The call of a job, and what its walk finds. Nothing may be read or written beyond an array."""

    def __init__(self, job):
        self.job, self.call = job, rows.plan(job)
        rest = self.call.rest[1 if job.indexed else 2 :]
        self.programs, self.stages, self.bands, across, several, sizes, *counts = rest
        self.across, self.counts, self.at = Across(*across), counts[0] if counts else None, SimpleNamespace(
            **dict(zip(SIZES, sizes, strict=True)))
        assert self.call.units == job.images // self.at.together * len(self.bands)
        assert (several[0] is None) == (self.stages is None or len(self.stages) == 1)

    def along(self, row):
        """What is found along a row, of the value of each element."""
        at, (stages, bands, parts, _, before, columns) = self.at, self.across
        assert len(row) == at.W
        found = {}

        def put(written):
            for out, (value, _) in written.items():
                assert found.setdefault(out, value) == value

        if parts is None:
            taken, piece = at.most_taken // at.E, stages[-1, STAGE_MADE]
            assert piece <= at.OW
            assert at.E * at.OW >= LANES
            assert 0 <= before <= before + at.W <= taken
            assert columns is None or columns.tolist() == np.arange(taken).repeat(at.E).tolist()
            place = dict(enumerate([None if self.job.summed else []] * taken))
            place.update({before + i: value for i, value in enumerate(row)})
            for window in range(0, at.OW, piece):
                first = min(window, at.OW - piece)
                put(pooled(self.job, bands[0].tolist(), self.programs, stages, place, (first, first), (1, 1),
                           True))
            for start in stages[:, STAGE_AT].tolist():
                self.check_vectors(start)
        else:
            several = len(stages) // len(parts)
            for p, part in enumerate(parts):
                assert part[COLUMNS] * at.E <= at.most_taken
                assert part[WINDOWS] * at.E <= at.most_given
                for i in range(part[ALIKE]):
                    column, window = part[COLUMN] + i * part[COLUMNS_APART], part[WINDOW] + i * part[WINDOWS_APART]
                    assert 0 <= column < column + part[COLUMNS] <= at.W
                    place = dict(enumerate(row[column : column + part[COLUMNS]]))
                    put(pooled(self.job, bands[p].tolist(), self.programs, stages[p * several : (p + 1) * several],
                               place, (0, int(window)), (1, 1)))
        assert sorted(found) == list(range(at.OW))
        return [found[o] for o in range(at.OW)]

    def check_vectors(self, start):
        """Where there is no room for a vector, it reaches back over windows that are alike."""
        runs = self.programs[start + HEADER : self.programs[start + ROWS]].reshape(-1, RUN)
        for before, run in zip([None, *runs], runs, strict=False):
            if run[WIDE] * self.at.E < LANES:
                assert (run[[AT, OUT]] == before[[AT, OUT]] + before[WIDE]).all()
                assert (run[[LIST, TAPS]] == before[[LIST, TAPS]]).all()
                assert (run[WIDE] + before[WIDE]) * self.at.E >= LANES

    def band(self, band):
        """{(row of windows, window): (what it is made of, its divisor's factor)} of a band."""
        at, summed, (first, count) = self.at, self.job.summed, band[:2].tolist()
        assert 0 <= first < first + count <= at.R * at.together
        assert count <= at.most_read
        pixels = [[(row * at.W + c) if summed else [row * at.W + c] for c in range(at.W)]
                  for row in range(first, first + count)]
        found = {}
        if summed:
            down = pooled(self.job, band.tolist(), self.programs, self.stages, dict(enumerate(range(count))),
                          (-first, 0), (1, 1))
            assert len(down) <= at.most_made
            for row, (value, _) in down.items():
                for o, result in enumerate(self.along([with_elements(value, [line[c] for line in pixels])
                                                       for c in range(at.W)])):
                    factor = 1
                    if self.counts is not None:
                        ends = self.counts[at.M * at.together + o * at.E :][: at.E]
                        assert (ends == ends[0]).all()
                        factor = self.counts[row] * ends[0]
                    found[row, o] = result, factor
            return found
        lines = [self.along(line) for line in pixels]
        if self.stages is None:
            return {(first + r, o): (value, 1) for r, line in enumerate(lines) for o, value in enumerate(line)}
        down = pooled(self.job, band.tolist(), self.programs, self.stages, {r: [r] for r in range(count)}, (-first, 0),
                      (1, 1), True)
        return {(row, o): (reduced(False, [lines[r][o] for r in value], 1, 1), 1)
                for row, (value, _) in down.items() for o in range(at.OW)}

    def check(self, windows):
        """Against plain loops; returns the order of all additions."""
        at, found = self.at, {}
        for band in self.bands:
            more = self.band(band)
            assert not found.keys() & more.keys()
            found.update(more)
        wanted = list(expected(self.job.axes, windows, self.job.summed))
        assert len(found) == len(wanted) * at.together
        for (row, o), (value, factor) in found.items():
            plane, row = divmod(row, at.M)
            pixels, _, _, by = wanted[row * at.OW + o]
            pixels = [plane * at.R * at.W + i for i in pixels]
            assert (flat(value) if self.job.summed else value) == (sorted(pixels) if self.job.summed else pixels)
            assert self.counts is None or factor == by
        return {place: value for place, (value, _) in found.items() if place[0] < at.M}


def order_of_stages(job):
    """The same for `taps` and `turned`."""
    stages, found = stages_of(job), {}
    tables = bands_of(job, stages, 10**6)
    pixels = dict(enumerate(range(job.size) if job.summed else [[i] for i in range(job.size)]))
    for band in tables.bands.tolist():
        found.update(pooled(job, band, tables.programs, tables.stages, pixels, (0, 0), (1, 1)))
    return {divmod(o, job.axes[2].n): value for o, (value, _) in found.items()}


def small_pieces(monkeypatch, rng):
    for name, values in {"PIECE": (1, 8, 20, 500), "LINE": (32, 64, 500), "TOGETHER": (1, 8, 500),
                         "MOST_BETWEEN": (1, 1 << 20)}.items():
        monkeypatch.setattr(rows, name, int(rng.choice(values)))
    monkeypatch.setattr(taps, "BAND", int(rng.choice((1, 1 << 10, 1 << 20))))
    monkeypatch.setattr(_stages, "STORED", int(rng.choice((4, -NINE))))  # levels, however short windows are


@pytest.mark.parametrize("reduction", ["max", "argmax", "average"])
def test_windows_along_rows_and_down_columns(reduction, monkeypatch):
    """Every window holds what it should, in order; sums are added up as other kernels add them up."""
    rng, seen = np.random.default_rng(len(reduction)), set()
    monkeypatch.setattr(_stages, "MOST_TWICE", NINE)
    for n in range(250):
        small_pieces(monkeypatch, rng)
        gradient = reduction == "average" and n % 3 == 0
        axes, windows = along_all(rng, gradient)
        shape = int(rng.integers(1, 5)), int(rng.integers(1, 16))
        walked = Walked(job_of(axes, reduction, shape, bool(rng.integers(2)), gradient))
        order = walked.check(windows)
        if reduction == "average":
            assert order == order_of_stages(walked.job)
        parts = walked.across.parts
        seen.add("padded" if parts is None else "pieces" if (parts[:, ALIKE] > 1).any() else "whole rows")
        seen.add(("parts", parts is not None and len(parts) > 1 and walked.across.by_pieces))
        seen.add(("stages", len(walked.across.stages) > len(walked.across.bands)))
        seen.add(("down", walked.stages is None))
        seen.add(("together", walked.at.together > 1))
    assert seen >= {"padded", "pieces", "whole rows", ("parts", 1), ("together", True), ("together", False)}
    assert {("stages", True), ("stages", False)} <= seen or reduction == "average"
    assert ("down", True) in seen or reduction == "average"


@pytest.mark.parametrize("gradient", [False, True])
def test_sums_of_sums(gradient, monkeypatch):
    """They are added up in one order, whichever kernel serves, and wherever a row is cut."""
    rng, clipped = np.random.default_rng(gradient), 0
    for n in range(40):
        small_pieces(monkeypatch, rng)
        size, k = (int(v) for v in rng.integers(32, 120, 2))
        d = int(rng.choice((1, 2, 5)))
        pads = (rng.integers(0, d * (k - 1) + 1, 2) * (rng.random(2) < 0.7)).tolist()
        along = uniform(size, k, 1, *pads, d, False, bool(n % 2))
        if along is None or not _stages.are_wide(along[0]):
            continue
        (axis, windows), of = along, along[0]
        if gradient:
            axis, windows = of.inverse, [([o for o, (taps, _) in enumerate(along[1]) if i in taps], 1)
                                         for i in range(size)]
        point = POINT, POINT
        job = job_of((*point, axis), "average", gradient=gradient, windows=(*point, of))
        walked = Walked(job)
        assert walked.across.parts is None
        assert walked.check([[([0], 1)], [([0], 1)], windows]) == order_of_stages(job)
        clipped += axis.longest < k
    assert clipped > 2


def test_empty_windows_that_begin_behind_a_row():
    """The pieces of a row end with it."""
    axis, windows = uniform(5, 2, 5, 12, 12, 20, False)
    assert (axis.start >= axis.size).any()
    job = job_of((POINT, POINT, axis), "max")
    Walked(job).check([[([0], 1)], [([0], 1)], windows])
