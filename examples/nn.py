"""Layers of a small convolutional network: convolution, linear layer, loss, optimisers. Pooling is numba_pool's.

An activation is an array (N, C, H, W) whose memory is channels last; `numba_pool` recognises that by the strides.
Layers have the protocol of numba_pool's: `forward`, `backward` (the gradient with respect to the last input, filling
`grad_weight` and `grad_bias` on the way), `train` and `eval`. Bias and ReLU are part of the convolution and of the
linear layer, since that spares a pass over the memory.

The arrays that a layer returns are its own buffers: they are good until the layer's next call.
"""

import kernels
import numpy as np


class Layer:
    """What every layer has; `training` matters to those that save something for their backward."""

    training = True

    def __call__(self, x):
        return self.forward(x)

    def train(self):
        self.training = True
        return self

    def eval(self):
        self.training = False
        return self


class _Weighted(Layer):
    """A layer with weights, and buffers that it keeps from call to call."""

    def __init__(self, weight, features, relu):
        self.weight, self.bias = weight, np.zeros(features, weight.dtype)
        self.grad_weight, self.grad_bias = np.zeros_like(self.weight), np.zeros_like(self.bias)
        self.floor = weight.dtype.type(0 if relu else -np.inf)  # the least output
        self._example = self._saved = None
        self._buffers = {}

    def _start(self, x):
        """Note what `backward` needs; buffers are for examples of one shape."""
        if x.shape[1:] != self._example:
            self._example = x.shape[1:]
            self._buffers.clear()
        self._saved = x.shape if self.training else None

    def _input_shape(self):
        if self._saved is None:
            raise RuntimeError(f"{type(self).__name__}.backward needs a forward in training mode before it")
        return self._saved

    def _buffer(self, name, shape, spare=0):
        """A kept array, zeros at first; a smaller batch gets its first examples. `spare` elements follow it."""
        size = int(np.prod(shape))
        if name not in self._buffers or self._buffers[name].size < size + spare:
            self._buffers[name] = np.zeros(size + spare, self.weight.dtype)
        return self._buffers[name][:size].reshape(shape)


class Conv2d(_Weighted):
    """Convolution, bias and (unless relu=False) ReLU; weight[kernel, kernel, in, out].

    With input_gradient=False, meant for a network's first layer, `backward` returns None.
    """

    def __init__(
        self,
        channels,
        features,
        kernel_size=3,
        stride=1,
        padding=0,
        *,
        relu=True,
        input_gradient=True,
        rng,
        dtype=np.float32,
    ):
        if not 0 <= padding < kernel_size:
            raise ValueError(f"padding must be in [0, kernel_size = {kernel_size}), got {padding}")
        if stride < 1:
            raise ValueError(f"stride must be at least 1, got {stride}")
        self.channels, self.features = channels, features
        self.kernel_size, self.stride, self.padding, self.input_gradient = kernel_size, stride, padding, input_gradient
        scale = np.sqrt(2 / (kernel_size**2 * channels))  # He et al. 2015, equation 10
        weight = rng.standard_normal((kernel_size, kernel_size, channels, features)) * scale
        super().__init__(weight.astype(dtype), features, relu)

    def forward(self, x):
        k, s, p = self.kernel_size, self.stride, self.padding
        if x.ndim != 4 or x.shape[1] != self.channels or min(x.shape[2:]) + 2 * p < k:
            least = max(1, k - 2 * p)
            raise ValueError(f"x must have shape (N, {self.channels}, H, W), H and W at least {least}, got {x.shape}")
        x = np.ascontiguousarray(np.moveaxis(x, 1, -1), self.weight.dtype)
        self._start(x)
        n, height, width, channels = x.shape
        # A tile may reach past the end of the last row; what it computes from that is not stored.
        spare = (kernels.PIXELS * s + k) * channels + kernels.ROWS
        self._padded = self._buffer("padded", (n, (height + 2 * p) * (width + 2 * p) * channels), spare)
        self._y = self._buffer("y", (n, (height + 2 * p - k) // s + 1, (width + 2 * p - k) // s + 1, self.features))
        kernels.conv_forward(x, self._padded, self.weight, self.bias, self._y, s, p, self.floor)
        return np.moveaxis(self._y, -1, 1)

    def backward(self, grad_output):
        n, height, width, channels = self._input_shape()
        dy = np.ascontiguousarray(np.moveaxis(grad_output, 1, -1), self.weight.dtype)
        if dy.shape != self._y.shape:
            expected = np.moveaxis(self._y, -1, 1).shape
            raise ValueError(f"grad_output must have shape {expected}, got {grad_output.shape}")
        k, features = self.kernel_size, self.features
        chunks = max(1, min(kernels.CHUNKS, n))
        spare = (kernels.PIXELS + k) * features
        spread = self._buffer("spread", (chunks, (height + k - 1) * (width + k - 1) * features), spare)
        partial = self._buffer("partial", (chunks, self.weight.size + features), kernels.ROWS * features)
        flipped = self._buffer("flipped", (k, k, features, channels))
        np.copyto(flipped, self.weight[::-1, ::-1].transpose(0, 1, 3, 2))
        dx = self._buffer("dx", (n if self.input_gradient else 0, height, width, channels))
        kernels.conv_backward(
            dy,
            self._y,
            self._padded,
            flipped,
            spread,
            partial,
            self.grad_weight,
            self.grad_bias,
            dx,
            self.stride,
            self.padding,
            self.floor,
        )
        return np.moveaxis(dx, -1, 1) if self.input_gradient else None


class Linear(_Weighted):
    """Matrix product, bias and (unless relu=False) ReLU; weight[out, in]."""

    def __init__(self, fan_in, features, *, relu=True, rng, dtype=np.float32):
        weight = rng.standard_normal((features, fan_in)) * np.sqrt(2 / fan_in)
        super().__init__(weight.astype(dtype), features, relu)

    def forward(self, x):
        features, fan_in = self.weight.shape
        if x.ndim != 2 or x.shape[1] != fan_in:
            raise ValueError(f"x must have shape (N, {fan_in}), got {x.shape}")
        self._start(x)
        spare = kernels.ROWS * fan_in
        self._x = self._buffer("x", x.shape, spare)
        np.copyto(self._x, x)
        self._y = self._buffer("y", (len(x), features))
        kernels.linear_forward(self._x, self.weight, self.bias, self._y, self.floor)
        return self._y

    def backward(self, grad_output):
        shape = self._input_shape()
        if grad_output.shape != self._y.shape:
            raise ValueError(f"grad_output must have shape {self._y.shape}, got {grad_output.shape}")
        dy = self._buffer("dy", grad_output.shape, kernels.ROWS * (len(self.bias) + 1))
        np.multiply(grad_output, self._y > self.floor, out=dy)
        dx = self._buffer("dx", shape)
        kernels.linear_backward(dy, self._x, self.weight, self.grad_weight, self.grad_bias, dx)
        return dx


class Flatten(Layer):
    """(N, C, H, W) to (N, H * W * C): in the order of the memory, so that nothing is copied."""

    def forward(self, x):
        last = np.moveaxis(x, 1, -1)
        self._shape = last.shape
        return last.reshape(len(x), -1)

    def backward(self, grad_output):
        return np.moveaxis(grad_output.reshape(self._shape), -1, 1)


class Sequential:
    """Layers one after the other. All weights lie in one array, `values`, their gradients in another, `gradients`."""

    def __init__(self, *layers):
        self.layers = layers
        places = [(layer, name) for layer in layers for name in ("weight", "bias") if hasattr(layer, name)]
        arrays = [getattr(layer, name) for layer, name in places]
        self.values = np.concatenate([array.ravel() for array in arrays])
        self.gradients = np.zeros_like(self.values)
        at = 0
        for (layer, name), array in zip(places, arrays, strict=True):
            setattr(layer, name, self.values[at : at + array.size].reshape(array.shape))
            setattr(layer, f"grad_{name}", self.gradients[at : at + array.size].reshape(array.shape))
            at += array.size

    def __call__(self, x):
        return self.forward(x)

    def forward(self, x):
        for layer in self.layers:
            x = layer.forward(x)
        return x

    def backward(self, grad_output):
        for layer in reversed(self.layers):
            grad_output = layer.backward(grad_output)
        return grad_output

    def train(self):
        for layer in self.layers:
            layer.train()
        return self

    def eval(self):
        for layer in self.layers:
            layer.eval()
        return self


def softmax_cross_entropy(logits, labels):
    """The mean loss of the batch, and its gradient with respect to the logits."""
    gradient = np.empty_like(logits)
    return kernels.softmax_cross_entropy(logits, labels, gradient), gradient


class SGD:
    """Stochastic gradient descent with momentum, in place; `state` is what a checkpoint has to keep."""

    def __init__(self, network, rate, momentum=0.9):
        self.network, self.rate, self.momentum = network, rate, momentum
        self.state = {"velocity": np.zeros_like(network.values)}

    def step(self):
        values = self.network.values
        real = values.dtype.type
        kernels.sgd_step(values, self.network.gradients, self.state["velocity"], real(self.rate), real(self.momentum))


class Adam:
    """Kingma and Ba 2014, algorithm 1, in place."""

    def __init__(self, network, rate, beta1=0.9, beta2=0.999, epsilon=1e-8):
        self.network, self.rate, self.beta1, self.beta2, self.epsilon = network, rate, beta1, beta2, epsilon
        zeros = np.zeros_like(network.values)
        self.state = {"mean": zeros, "square": zeros.copy(), "steps": np.zeros((), np.int64)}

    def step(self):
        state, values = self.state, self.network.values
        state["steps"] += 1
        scales = (1 / (1 - beta ** int(state["steps"])) for beta in (self.beta1, self.beta2))
        numbers = (values.dtype.type(v) for v in (self.rate, self.beta1, self.beta2, *scales, self.epsilon))
        kernels.adam_step(values, self.network.gradients, state["mean"], state["square"], *numbers)
