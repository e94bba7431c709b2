"""Long rows with long windows: envelopes and means of recordings, and their gradients."""

import numpy as np

import numba_pool as nb


class Signals:
    """Milliseconds beside what NumPy's reshape takes for the same."""

    params = ((8_000_000,), (100, 1000, 20_000))
    param_names = ("length", "window")

    def setup(self, length, window):
        self.x = np.random.default_rng(0).standard_normal((1, 1, length), dtype=np.float32)
        self.y, self.indices = nb.max_pool1d(self.x, window, return_indices=True)
        nb.avg_pool1d(self.x, window)
        nb.avg_pool1d_backward(self.y, self.x.shape, window)
        nb.adaptive_avg_pool1d_backward(self.y, self.x.shape)

    def time_mean(self, length, window):
        nb.avg_pool1d(self.x, window)

    def time_mean_by_numpy(self, length, window):
        self.x[..., : length // window * window].reshape(-1, window).mean(axis=1)

    def time_maximum(self, length, window):
        nb.max_pool1d(self.x, window)

    def time_maximum_by_numpy(self, length, window):
        self.x[..., : length // window * window].reshape(-1, window).max(axis=1)

    def time_argmax(self, length, window):
        nb.max_pool1d(self.x, window, return_indices=True)

    def time_gradient_of_the_mean(self, length, window):
        nb.avg_pool1d_backward(self.y, self.x.shape, window)

    def time_gradient_of_the_adaptive_mean(self, length, window):
        nb.adaptive_avg_pool1d_backward(self.y, self.x.shape)


class RunningMeans:
    """A window at every sample: milliseconds beside what NumPy's running sum of doubles takes, which drifts."""

    params = ((2_000_000,), (33, 1001, 16_001))
    param_names = ("length", "window")

    def setup(self, length, window):
        self.x = np.random.default_rng(0).standard_normal((1, 1, length), dtype=np.float32)
        self.y = nb.avg_pool1d(self.x, window, 1)
        nb.avg_pool1d_backward(self.y, self.x.shape, window, 1)
        nb.max_pool1d(self.x, window, 1)

    def time_mean(self, length, window):
        nb.avg_pool1d(self.x, window, 1)

    def time_mean_by_numpy(self, length, window):
        total = np.cumsum(self.x[0, 0], dtype=np.float64)
        ((total[window:] - total[:-window]) / window).astype(np.float32)

    def time_maximum(self, length, window):
        nb.max_pool1d(self.x, window, 1)

    def time_gradient_of_the_mean(self, length, window):
        nb.avg_pool1d_backward(self.y, self.x.shape, window, 1)
