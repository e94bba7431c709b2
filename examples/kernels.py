"""The arithmetic under `nn.py`: convolution, linear layer, loss and optimisers as Numba kernels.

All of it is one idea. A tile of accumulators stays in vector registers while a loop adds `scalar * vector` (or
`vector * vector`) products to it; a convolution in channels-last order, its two gradients and the linear layer's three
products differ only in what the scalars and the vectors are. LLVM does not find this by itself, hence the small vector
type and its intrinsics at the top. BLAS is not used: the products are too narrow for it (16 or 32 channels), and its
threads would fight with Numba's.

Every array that a kernel takes is C-contiguous and nothing is checked here: `nn.py` hands over buffers of its own.
"""

import llvmlite.binding
import numpy as np
from llvmlite import ir
from numba import njit, prange, types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model

# Float32 lanes in a register, and how many registers a tile may use beside those for the operands.
LANES = 16 if llvmlite.binding.get_host_cpu_features().get("avx512f") else 8
PIXELS = 14  # divides MNIST's rows of 28 and 14
ROWS = 16
CHUNKS = 16  # partial sums of a weight gradient: a fixed number, so that the threads don't change the result

INT32 = ir.IntType(32)
FLOATS = {types.float32: ("f32", ir.FloatType()), types.float64: ("f64", ir.DoubleType())}


class Vector(types.Type):
    """LANES numbers, or LANES booleans that say which lanes count."""

    def __init__(self, element):
        self.element = element
        super().__init__(name=f"vector({element} x {LANES})")


@register_model(Vector)
class VectorModel(models.PrimitiveModel):
    def __init__(self, manager, vector):
        element = ir.IntType(1) if vector.element is types.boolean else FLOATS[vector.element][1]
        super().__init__(manager, vector, ir.VectorType(element, LANES))


MASK = Vector(types.boolean)


def _fill(builder, value):
    undefined = ir.Constant(ir.VectorType(value.type, LANES), ir.Undefined)
    one = builder.insert_element(undefined, value, INT32(0))
    return builder.shuffle_vector(one, undefined, ir.Constant(ir.VectorType(INT32, LANES), [0] * LANES))


def _pointer(context, builder, array_type, array, offset):
    return builder.gep(context.make_array(array_type)(context, builder, array).data, [offset])


def _vector_pointer(context, builder, array_type, array, offset):
    vector = ir.VectorType(FLOATS[array_type.dtype][1], LANES)
    return builder.bitcast(_pointer(context, builder, array_type, array, offset), vector.as_pointer())


def _load(context, builder, array_type, array, offset, mask):
    pointer = _vector_pointer(context, builder, array_type, array, offset)
    kind, vector = FLOATS[array_type.dtype][0], pointer.type.pointee
    function = cgutils.get_or_insert_function(
        builder.module,
        ir.FunctionType(vector, [pointer.type, INT32, mask.type, vector]),
        f"llvm.masked.load.v{LANES}{kind}.p0",
    )
    align = INT32(array_type.dtype.bitwidth // 8)
    return builder.call(function, [pointer, align, mask, ir.Constant(vector, [0.0] * LANES)])


@intrinsic
def lanes(typingctx, count):
    """Mask of the first `count` lanes; all of them if there are fewer."""

    def generate(context, builder, signature, args):
        numbers = ir.Constant(ir.VectorType(args[0].type, LANES), list(range(LANES)))
        return builder.icmp_signed("<", numbers, _fill(builder, args[0]))

    return MASK(count), generate


@intrinsic
def load(typingctx, array, offset, mask):
    """array[offset:offset + LANES], zero where the mask is off."""

    def generate(context, builder, signature, args):
        return _load(context, builder, signature.args[0], *args)

    return Vector(array.dtype)(array, types.intp, MASK), generate


@intrinsic
def load_gated(typingctx, array, gate, offset, mask, floor):
    """array[offset:offset + LANES] where the same lanes of `gate` exceed `floor`, zero elsewhere."""

    def generate(context, builder, signature, args):
        array, gate, offset, mask, floor = args
        opening = _load(context, builder, signature.args[1], gate, offset, mask)
        mask = builder.and_(mask, builder.fcmp_ordered(">", opening, _fill(builder, floor)))
        return _load(context, builder, signature.args[0], array, offset, mask)

    return Vector(array.dtype)(array, gate, types.intp, MASK, array.dtype), generate


@intrinsic(prefer_literal=True)
def load_tile(typingctx, array, offset, step, mask, count):
    """The accumulators: a tuple of `count` vectors array[offset + i * step:][:LANES]."""
    if not isinstance(count, types.IntegerLiteral):
        return None

    def generate(context, builder, signature, args):
        array, offset, step, mask, _ = args
        acc = []
        for _ in range(signature.return_type.count):
            acc.append(_load(context, builder, signature.args[0], array, offset, mask))
            offset = builder.add(offset, step)
        return context.make_tuple(builder, signature.return_type, acc)

    tile = types.UniTuple(Vector(array.dtype), count.literal_value)
    return tile(array, types.intp, types.intp, MASK, count), generate


def _add_products(context, builder, signature, acc, operands, vector):
    kind = FLOATS[signature.args[1].dtype][0]
    function = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(vector.type, [vector.type] * 3), f"llvm.fmuladd.v{LANES}{kind}"
    )
    sums = [builder.extract_value(acc, i) for i in range(len(operands))]
    new = [builder.call(function, [a, vector, total]) for a, total in zip(operands, sums, strict=True)]
    return context.make_tuple(builder, signature.return_type, new)


@intrinsic
def add_scalars(typingctx, acc, array, offset, step, vector):
    """acc[i] += array[offset + i * step] * vector."""

    def generate(context, builder, signature, args):
        acc, array, offset, step, vector = args
        operands = []
        for _ in range(signature.return_type.count):
            pointer = _pointer(context, builder, signature.args[1], array, offset)
            operands.append(_fill(builder, builder.load(pointer)))
            offset = builder.add(offset, step)
        return _add_products(context, builder, signature, acc, operands, vector)

    return acc(acc, array, types.intp, types.intp, vector), generate


@intrinsic
def add_vectors(typingctx, acc, array, offset, step, mask, vector):
    """acc[i] += array[offset + i * step:][:LANES] * vector."""

    def generate(context, builder, signature, args):
        acc, array, offset, step, mask, vector = args
        operands = []
        for _ in range(signature.return_type.count):
            operands.append(_load(context, builder, signature.args[1], array, offset, mask))
            offset = builder.add(offset, step)
        return _add_products(context, builder, signature, acc, operands, vector)

    return acc(acc, array, types.intp, types.intp, MASK, vector), generate


@intrinsic
def store_tile(typingctx, acc, array, offset, step, count, mask, floor):
    """array[offset + i * step:][:LANES] = maximum(acc[i], floor) for the first `count` of the tile; NaN stays NaN."""

    def generate(context, builder, signature, args):
        acc, array, offset, step, count, mask, floor = args
        kind, low = FLOATS[signature.args[1].dtype][0], _fill(builder, floor)
        for i in range(signature.args[0].count):
            value = builder.extract_value(acc, i)
            value = builder.select(builder.fcmp_ordered("<", value, low), low, value)
            pointer = _vector_pointer(context, builder, signature.args[1], array, offset)
            function = cgutils.get_or_insert_function(
                builder.module,
                ir.FunctionType(ir.VoidType(), [value.type, pointer.type, INT32, mask.type]),
                f"llvm.masked.store.v{LANES}{kind}.p0",
            )
            with builder.if_then(builder.icmp_signed("<", count.type(i), count), likely=True):
                builder.call(function, [value, pointer, INT32(signature.args[1].dtype.bitwidth // 8), mask])
            offset = builder.add(offset, step)
        return context.get_dummy_value()

    return types.void(acc, array, types.intp, types.intp, types.intp, MASK, array.dtype), generate


@intrinsic
def store_sums(typingctx, acc, array, offset, step, count, bias, floor):
    """array[offset + i * step] = maximum(sum(acc[i]) + bias, floor) for the first `count` of the tile."""

    def generate(context, builder, signature, args):
        acc, array, offset, step, count, bias, floor = args
        for i in range(signature.args[0].count):
            value, width = builder.extract_value(acc, i), LANES
            while width > 1:  # halves, quarters, ...
                width //= 2
                order = ir.Constant(ir.VectorType(INT32, LANES), [(j + width) % LANES for j in range(LANES)])
                value = builder.fadd(value, builder.shuffle_vector(value, value, order))
            value = builder.fadd(builder.extract_element(value, INT32(0)), bias)
            value = builder.select(builder.fcmp_ordered("<", value, floor), floor, value)
            with builder.if_then(builder.icmp_signed("<", count.type(i), count), likely=True):
                builder.store(value, _pointer(context, builder, signature.args[1], array, offset))
            offset = builder.add(offset, step)
        return context.get_dummy_value()

    return types.void(acc, array, types.intp, types.intp, types.intp, array.dtype, array.dtype), generate


# ---- convolution, channels last ------------------------------------------------------------------------------------


@njit
def _convolve(x, x_at, pitch, weight, bias, y, y_at, k, stride, rows, cols, cin, cout, floor):
    """One padded image x[x_at:] as [:, pitch, cin], with weight[k, k, cin, cout]: y[y_at:] as [rows, cols, cout]."""
    for row in range(rows):
        for col in range(0, cols, PIXELS):
            for o in range(0, cout, LANES):
                mask = lanes(cout - o)
                acc = load_tile(bias, o, 0, mask, PIXELS)
                for i in range(k):
                    at = x_at + ((row * stride + i) * pitch + col * stride) * cin
                    w_at = i * k * cin * cout + o
                    for j in range(k * cin):  # column and channel are neighbours both in x and in the weights
                        acc = add_scalars(acc, x, at + j, stride * cin, load(weight, w_at + j * cout, mask))
                store_tile(acc, y, y_at + (row * cols + col) * cout + o, cout, cols - col, mask, floor)


@njit
def _convolve_gradient(x, x_at, pitch, dy, dy_at, dy_pitch, spread, dw, dw_at, k, stride, rows, cols, cin, cout, low):
    """dw[dw_at:] as [k, k, cin, cout] += products of a padded image with gradients that lie `spread` pixels apart."""
    for o in range(0, cout, LANES):
        mask = lanes(cout - o)
        for i in range(k):
            for j in range(0, k * cin, ROWS):
                w_at = dw_at + (i * k * cin + j) * cout + o
                acc = load_tile(dw, w_at, cout, mask, ROWS)
                for row in range(rows):
                    at = x_at + (row * stride + i) * pitch * cin + j
                    d_at = dy_at + row * spread * dy_pitch * cout + o
                    for col in range(cols):
                        v = load(dy, d_at + col * spread * cout, mask)
                        acc = add_scalars(acc, x, at + col * stride * cin, 1, v)
                store_tile(acc, dw, w_at, cout, k * cin - j, mask, low)


@njit(parallel=True, cache=True)
def conv_forward(x, padded, weight, bias, y, stride, pad, floor):
    """x[N, H, W, C] is copied into the middle of padded[N, :] (zeros around); y[N, rows, cols, O]."""
    n, height, width, cin = x.shape
    _, rows, cols, cout = y.shape
    k = weight.shape[0]
    pitch = width + 2 * pad
    size = padded.shape[1]
    xf, pf, yf, wf = x.reshape(x.size), padded.reshape(padded.size), y.reshape(y.size), weight.reshape(weight.size)
    for image in prange(n):
        for row in range(height):
            at = image * size + ((row + pad) * pitch + pad) * cin
            x_at = (image * height + row) * width * cin
            for j in range(width * cin):
                pf[at + j] = xf[x_at + j]
        y_at = image * rows * cols * cout
        _convolve(pf, image * size, pitch, wf, bias, yf, y_at, k, stride, rows, cols, cin, cout, floor)


@njit(parallel=True, cache=True)
def conv_backward(dy, y, padded, flipped, spread, partial, dw, db, dx, stride, pad, floor):
    """dw, db and, unless it is for zero images, dx.

    `floor` is that of the forward pass. `spread`[chunks, :] takes one image's gradients, `stride` pixels apart with
    zeros between and around them, so that dx is a plain convolution with the flipped weights.
    """
    n, rows, cols, cout = dy.shape
    _, height, width, cin = dx.shape
    k = dw.shape[0]
    pitch = width + 2 * pad
    border = k - 1 - pad
    dpitch = width + k - 1
    chunks, size = spread.shape
    xsize = padded.shape[1]
    psize = partial.shape[1]
    wsize = k * k * cin * cout
    low = dy.dtype.type(-np.inf)
    zero, one = np.zeros(cin, dy.dtype), np.ones(1, dy.dtype)
    dyf, yf, xf, sf = dy.reshape(dy.size), y.reshape(y.size), padded.reshape(padded.size), spread.reshape(spread.size)
    pf, ff, dxf = partial.reshape(partial.size), flipped.reshape(flipped.size), dx.reshape(dx.size)
    for chunk in prange(chunks):
        partial[chunk] = 0
        part_at = chunk * psize
        s_at = chunk * size + (border * dpitch + border) * cout
        for image in range(n * chunk // chunks, n * (chunk + 1) // chunks):
            for o in range(0, cout, LANES):
                mask = lanes(cout - o)
                total = load_tile(pf, part_at + wsize + o, 0, mask, 1)
                for row in range(rows):
                    for col in range(cols):
                        v = load_gated(dyf, yf, ((image * rows + row) * cols + col) * cout + o, mask, floor)
                        total = add_scalars(total, one, 0, 0, v)
                        store_tile((v,), sf, s_at + (row * dpitch + col) * stride * cout + o, 0, 1, mask, low)
                store_tile(total, pf, part_at + wsize + o, 0, 1, mask, low)
            _convolve_gradient(
                xf, image * xsize, pitch, sf, s_at, dpitch, stride, pf, part_at, k, stride, rows, cols, cin, cout, low
            )
            if len(dx) > 0:
                _convolve(
                    sf,
                    chunk * size,
                    dpitch,
                    ff,
                    zero,
                    dxf,
                    image * height * width * cin,
                    k,
                    1,
                    height,
                    width,
                    cout,
                    cin,
                    low,
                )
    dwf = dw.reshape(wsize)
    dwf[:] = 0
    db[:] = 0
    for chunk in range(chunks):
        for i in range(wsize):
            dwf[i] += partial[chunk, i]
        for o in range(cout):
            db[o] += partial[chunk, wsize + o]


# ---- linear layer --------------------------------------------------------------------------------------------------


@njit(parallel=True, cache=True)
def linear_forward(x, weight, bias, y, floor):
    """y[N, out] = maximum(x[:N] @ weight[out, in].T + bias, floor); x has rows to spare up to a multiple of ROWS."""
    n, out = y.shape
    fan_in = weight.shape[1]
    xf, wf, yf = x.reshape(x.size), weight.reshape(weight.size), y.reshape(y.size)
    for o in prange(out):
        for row in range(0, n, ROWS):
            acc = load_tile(xf, 0, 0, lanes(0), ROWS)
            for i in range(0, fan_in, LANES):
                mask = lanes(fan_in - i)
                acc = add_vectors(acc, xf, row * fan_in + i, fan_in, mask, load(wf, o * fan_in + i, mask))
            store_sums(acc, yf, row * out + o, out, n - row, bias[o], floor)


@njit(parallel=True, cache=True)
def linear_backward(dy, x, weight, dw, db, dx):
    """dx = dy @ weight, dw = dy.T @ x, db = dy.sum(0); dy and x have rows to spare up to a multiple of ROWS."""
    n, fan_in = dx.shape
    out = weight.shape[0]
    low = dy.dtype.type(-np.inf)
    df, xf, wf = dy.reshape(dy.size), x.reshape(x.size), weight.reshape(weight.size)
    dwf, dxf = dw.reshape(dw.size), dx.reshape(dx.size)
    for panel in prange((fan_in + LANES - 1) // LANES):
        i = panel * LANES
        mask = lanes(fan_in - i)
        for row in range(0, n, ROWS):
            acc = load_tile(xf, 0, 0, lanes(0), ROWS)
            for o in range(out):
                acc = add_scalars(acc, df, row * out + o, out, load(wf, o * fan_in + i, mask))
            store_tile(acc, dxf, row * fan_in + i, fan_in, n - row, mask, low)
        for o in range(0, out, ROWS):
            acc = load_tile(xf, 0, 0, lanes(0), ROWS)
            for row in range(n):
                acc = add_scalars(acc, df, row * out + o, 1, load(xf, row * fan_in + i, mask))
            store_tile(acc, dwf, o * fan_in + i, fan_in, out - o, mask, low)
    db[:] = 0
    for row in range(n):
        for o in range(out):
            db[o] += dy[row, o]


# ---- loss, optimisers, batches -------------------------------------------------------------------------------------


@njit(cache=True)
def softmax_cross_entropy(logits, labels, gradient):
    """The mean loss of a batch; `gradient` becomes its derivative with respect to the logits."""
    n, classes = logits.shape
    loss = 0.0
    for i in range(n):
        top = logits[i].max()
        total = 0.0
        for c in range(classes):
            total += np.exp(np.float64(logits[i, c] - top))
        for c in range(classes):
            gradient[i, c] = np.exp(np.float64(logits[i, c] - top)) / total / n
        gradient[i, labels[i]] -= 1 / n
        loss += np.log(total) - (logits[i, labels[i]] - top)
    return loss / n


@njit(parallel=True, cache=True)
def sgd_step(values, gradients, velocity, rate, momentum):
    """In place: velocity = momentum * velocity + gradients, values -= rate * velocity (torch's form)."""
    for i in prange(values.size):
        velocity[i] = momentum * velocity[i] + gradients[i]
        values[i] -= rate * velocity[i]


@njit(parallel=True, cache=True)
def adam_step(values, gradients, mean, square, rate, beta1, beta2, scale1, scale2, epsilon):
    """In place; scale1 and scale2 undo the bias of the two running means."""
    one = values.dtype.type(1)
    for i in prange(values.size):
        mean[i] = beta1 * mean[i] + (one - beta1) * gradients[i]
        square[i] = beta2 * square[i] + (one - beta2) * gradients[i] * gradients[i]
        values[i] -= rate * (mean[i] * scale1) / (np.sqrt(square[i] * scale2) + epsilon)


@njit(cache=True)
def warped(images, chosen, maps, out):
    """out[i, row, col] = images[chosen[i]] at maps[i] @ (row, col, 1), bilinear; zeros outside.

    Rows and columns count from the middle of the image.
    """
    _, height, width, _ = images.shape
    for i in range(len(chosen)):
        image, (a, b, down), (c, d, right) = images[chosen[i], :, :, 0], maps[i, 0], maps[i, 1]
        for row in range(height):
            y, x = row - (height - 1) / 2, -(width - 1) / 2
            for col in range(width):
                from_row = a * y + b * (x + col) + down + (height - 1) / 2
                from_col = c * y + d * (x + col) + right + (width - 1) / 2
                top, left = int(np.floor(from_row)), int(np.floor(from_col))
                value = 0.0
                for r in range(max(top, 0), min(top + 2, height)):
                    for q in range(max(left, 0), min(left + 2, width)):
                        value += image[r, q] * (1 - abs(from_row - r)) * (1 - abs(from_col - q))
                out[i, row, col, 0] = value
