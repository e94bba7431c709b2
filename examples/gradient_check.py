"""Is backward the derivative of forward?
======================================

Is backward the derivative of forward? Central differences against the gradient, for any layer.

    python examples/gradient_check.py                                            # a layer of every kind
    python examples/gradient_check.py "MaxPool2d(3, stride=2, padding=1)" --shape 2 3 9 9
    python examples/gradient_check.py "Conv2d(3, 4, 3, padding=1)" --shape 2 3 6 6  # of nn.py, its weights too

From your own code, for anything with `forward` and `backward`: `compare(layer, x)` and `error(*compare(layer, x))`.
"""

import argparse
import ast
import inspect
from pathlib import Path

import nn
import numpy as np
import plots
from plots import BLUE, ORANGE, plt

import numba_pool

STEP, TOLERANCE = 1e-5, 1e-7
EXAMPLES = {  # layer: shape of its input
    "MaxPool2d(3, stride=2, padding=1)": (2, 3, 7, 8),
    "AvgPool2d(3, stride=2, padding=1)": (2, 3, 7, 8),
    "LPPool2d(3, 3, stride=2)": (2, 3, 7, 9),
    "MaxPool1d(3, dilation=2)": (2, 3, 20),
    "AvgPool3d(2, ceil_mode=True)": (1, 2, 3, 4, 5),
    "AdaptiveMaxPool2d(3)": (2, 3, 7, 8),
    "AdaptiveAvgPool2d((3, 4))": (2, 3, 7, 8),
    "FractionalMaxPool2d(2, output_size=(3, 4), random_samples=[[[0.3, 0.6]]])": (1, 1, 7, 8),
    "MaxUnpool2d(2)": (2, 3, 4, 5),
    "GlobalMaxPool()": (2, 3, 5, 6),
    "GlobalAvgPool()": (2, 3, 5, 6),
    "Conv2d(3, 4, 3, stride=2, padding=1)": (2, 3, 6, 7),
    "Linear(7, 5)": (4, 7),
}


def compare(layer, x, *others, step=STEP, seed=0):
    """(gradient, its finite differences), both flat, of the sum of `layer(x, *others)` times random weights.

    The gradient is the one with respect to x, then those with respect to the layer's weight and bias if it has any.
    `x` is float64 and comes back unchanged.
    """
    rng = np.random.default_rng(seed)
    layer.train()  # forgets earlier calls, or a pooling layer would not know whose gradient is wanted
    upstream = rng.standard_normal(layer.forward(x, *others).shape)
    gradients = [layer.backward(upstream).copy()]
    arrays = [x]
    for name in ("weight", "bias"):
        if hasattr(layer, name):
            arrays.append(getattr(layer, name))
            gradients.append(getattr(layer, f"grad_{name}").copy())
    differences = []
    for array in arrays:
        for at in np.ndindex(array.shape):
            kept, sums = array[at], []
            for value in (kept + step, kept - step):
                array[at] = value
                sums.append(np.sum(layer.forward(x, *others) * upstream))
            array[at] = kept
            differences.append((sums[0] - sums[1]) / (2 * step))
    return np.concatenate([gradient.ravel() for gradient in gradients]), np.array(differences)


def error(gradient, differences):
    """The largest difference, relative to the largest element."""
    return float(np.abs(gradient - differences).max() / max(np.abs(gradient).max(), np.abs(differences).max(), 1e-300))


def make(text):
    """A layer from what one would write in Python: a name of numba_pool or nn, and literal arguments."""
    try:
        call = ast.parse(text, mode="eval").body
        kind = getattr(numba_pool, call.func.id, None) or getattr(nn, call.func.id)
        arguments = [ast.literal_eval(argument) for argument in call.args]
        named = {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords}
    except (SyntaxError, ValueError, AttributeError) as problem:
        raise ValueError(f"a layer is written like 'MaxPool2d(3, stride=2)', got {text!r}") from problem
    if "rng" in inspect.signature(kind).parameters and hasattr(nn, call.func.id):
        named |= {"rng": np.random.default_rng(0), "dtype": np.float64}
    return kind(*arguments, **named)


def make_input(layer, shape, seed=0):
    """What the layer's forward takes. The elements of x lie 0.01 apart, so that no step changes who is the maximum."""
    size = int(np.prod(shape))
    x = (np.random.default_rng(seed).permutation(size).reshape(shape) - size / 2 + 0.25) / 100
    if type(layer).__name__.startswith("MaxUnpool"):
        plane = int(np.prod(layer(x, np.zeros(shape, np.int64)).shape[2:]))
        places = np.random.default_rng(seed).random((*shape[:2], plane)).argsort(axis=-1)  # none of them twice
        return x, places[..., : int(np.prod(shape[2:]))].reshape(shape)
    return (x,)


def draw(results, errors_by_step):
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.4), layout="constrained", width_ratios=(1, 1.35))
    for number, (gradient, differences) in enumerate(results.values()):
        left.plot(
            differences, gradient, ".", color=BLUE, markersize=4, alpha=0.4, label=None if number else "an element"
        )
    ends = [min(d.min() for _, d in results.values()), max(d.max() for _, d in results.values())]
    left.plot(ends, ends, color="0.6", linewidth=0.8, zorder=0)
    layers = f"{len(results)} layers" if len(results) > 1 else next(iter(results))
    left.set(
        xlabel="finite difference",
        ylabel="backward",
        title=f"{layers}, {sum(g.size for g, _ in results.values()):,} elements",
    )
    colours = (BLUE, ORANGE, "0.45", "#2a8c3f")
    for (name, (steps, errors)), colour in zip(errors_by_step.items(), colours, strict=False):
        right.loglog(steps, np.maximum(errors, 1e-17), marker="o", markersize=3, color=colour, label=name)
    right.axvline(STEP, color="0.85", zorder=0)
    right.set(
        xlabel="step of the differences",
        ylabel="largest error",
        title="a step too small: rounding\na step too large: another maximum, or curvature",
    )
    right.title.set_fontsize(9.5)
    right.legend(frameon=False, fontsize=9)
    for ax in (left, right):
        ax.spines[["top", "right"]].set_visible(False)
    return figure


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("layer", nargs="?", help="such as 'MaxPool2d(3, stride=2)'; default: one of every kind")
    parser.add_argument("--shape", type=int, nargs="+", metavar="N", help="of its input")
    parser.add_argument("--step", type=float, default=STEP, help=f"default: {STEP:g}")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=Path("plots/gradient_check.png"), metavar="FILE.png")
    options = parser.parse_args(arguments)
    if not options.step > 0:
        parser.error(f"--step must be positive, got {options.step}")
    if (options.layer is None) != (options.shape is None):
        parser.error("a layer and --shape go together")
    chosen = EXAMPLES if options.layer is None else {options.layer: tuple(options.shape)}
    results = {}
    for text, shape in chosen.items():
        try:
            layer = make(text)
            results[text] = compare(
                layer, *make_input(layer, shape, options.seed), step=options.step, seed=options.seed
            )
        except (ValueError, TypeError) as problem:
            parser.error(f"{text}: {problem}")
        wrong = error(*results[text])
        print(f"{'ok   ' if wrong < TOLERANCE else 'WRONG'} {wrong:.1e}  {results[text][0].size:4} elements  {text}")
    steps = 10.0 ** np.arange(-10, 0.5, 0.5)
    by_step = {}
    for text in list(chosen)[:3]:
        layer = make(text)
        inputs = make_input(layer, chosen[text], options.seed)
        by_step[text] = steps, [error(*compare(layer, *inputs, step=step, seed=options.seed)) for step in steps]
    plots.save(draw(results, by_step), options.output)
    print(f"picture:  {options.output}")
    return int(any(error(*result) >= TOLERANCE for result in results.values()))


if __name__ == "__main__":
    raise SystemExit(main())
