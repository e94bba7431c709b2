"""What every peer is asked for, and what it answers: a Case, and calls to be timed."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Case:
    """One operation on one input; the shape is (N, C, H, W) whatever the layout."""

    operation: str  # "argmax": forward with indices and its backward; "max": forward alone; "avg"; "global_avg"
    layout: str  # "nchw" or "nhwc", the order in memory
    shape: tuple[int, int, int, int]
    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: int
    threads: int

    @property
    def output_shape(self) -> tuple[int, int, int, int]:
        lengths = (
            (length + 2 * self.padding - k) // s + 1
            for length, k, s in zip(self.shape[2:], self.kernel, self.stride, strict=True)
        )
        return (*self.shape[:2], *lengths)

    def traffic(self, direction: str) -> tuple[int, int]:
        """Bytes to read and to write, each once, by a "forward" or "backward": float32 values, int32 indices."""
        inputs, outputs = 4 * math.prod(self.shape), 4 * math.prod(self.output_shape)
        if self.operation == "argmax":
            outputs *= 2
        return (inputs, outputs) if direction == "forward" else (outputs, inputs)

    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """The input and the upstream gradient, (N, C, H, W) in the case's memory order."""
        rng = np.random.default_rng(0)
        pair = (rng.standard_normal(shape, dtype=np.float32) for shape in (self.shape, self.output_shape))
        return tuple(to_first(to_last(a)) if self.layout == "nhwc" else a for a in pair)


@dataclass(frozen=True)
class Calls:
    """What is timed. ``values`` turns a result into an (N, C, H, W) array, to check that all compute the same."""

    forward: Callable[[], object]
    backward: Callable[[], object] | None = None
    values: Callable[[object], np.ndarray] = np.asarray


@dataclass(frozen=True)
class Peer:
    """A library in one way of using it."""

    name: str
    label: str
    module: str
    prepare: Callable[[Case], Calls]


class Unsupported(Exception):
    """This peer has no such operation; the text says what is missing."""


PEERS: dict[str, Peer] = {}


def peer(name: str, label: str, module: str):
    """Enter a function into PEERS; ``module`` is what has to be installed."""

    def enter(prepare):
        PEERS[name] = Peer(name, label, module, prepare)
        return prepare

    return enter


def to_last(a: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(a.transpose(0, 2, 3, 1))


def to_first(a) -> np.ndarray:
    return np.asarray(a).transpose(0, 3, 1, 2)


def first_of(result) -> np.ndarray:
    """The values of a call that may return (values, indices)."""
    return np.asarray(result[0] if isinstance(result, tuple) else result)
