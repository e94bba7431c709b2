"""The training loop against PyTorch's
===================================

The training loop of this folder against PyTorch's on the same network: losses, images per second, time per layer.

    python examples/compare_torch.py            # needs torch beside the examples extra

Conv 1->16 3x3, ReLU, max pool 2, conv 16->32 3x3, ReLU, max pool 2, linear 1568->128, ReLU, linear 128->10,
cross-entropy, SGD with momentum 0.9; images of 28x28 pixels, float32, the same initial weights and the same batches for
all. Each side runs in a process of its own, since thread pools of two libraries in one process get into each other's
way; the sides take turns, so that a noisy neighbour hits all of them.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import time

import numpy as np

SIDES = ("numba_pool", "torch", "torch channels last")
# At a rate of 0.05 rounding errors grow until even torch's two memory orders differ by 5e-3 after 50 steps: a maximum
# changes its place. At 0.01 all sides stay within 2e-7.
RATE, MOMENTUM = 0.01, 0.9
PIXELS = 28  # of an image, along each side


def initial_weights(pixels):
    """In torch's layout, zero biases."""
    rng = np.random.default_rng(0)
    shapes = {"conv1": (16, 1, 3, 3), "conv2": (32, 16, 3, 3), "linear1": (128, 32 * (pixels // 4) ** 2),
              "linear2": (10, 128)}
    return {
        name: (rng.standard_normal(shape) * np.sqrt(2 / np.prod(shape[1:]))).astype(np.float32)
        for name, shape in shapes.items()
    }


def make_batches(count, size, pixels):
    """Blobs that differ by class: something to learn, without a download."""
    rng = np.random.default_rng(1)
    classes = rng.random((10, 1, pixels, pixels), dtype=np.float32)
    labels = rng.integers(0, 10, (count, size))
    noise = rng.random((count, size, 1, pixels, pixels), dtype=np.float32)
    return 0.5 * classes[labels] + 0.5 * noise, labels


class OurSide:
    def __init__(self, threads, pixels):
        import nn

        import numba_pool

        numba_pool.set_num_threads(threads)
        rng = np.random.default_rng(0)
        self.nn = nn
        self.network = nn.Sequential(
            nn.Conv2d(1, 16, padding=1, input_gradient=False, rng=rng),
            numba_pool.MaxPool2d(2),
            nn.Conv2d(16, 32, padding=1, rng=rng),
            numba_pool.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(32 * (pixels // 4) ** 2, 128, rng=rng),
            nn.Linear(128, 10, relu=False, rng=rng),
        )
        weights = initial_weights(pixels)
        conv1, _, conv2, _, _, linear1, linear2 = self.network.layers
        conv1.weight[...] = weights["conv1"].transpose(2, 3, 1, 0)
        conv2.weight[...] = weights["conv2"].transpose(2, 3, 1, 0)
        # torch flattens (C, H, W), this example (H, W, C)
        by_channel = weights["linear1"].reshape(128, 32, pixels // 4, pixels // 4)
        linear1.weight[...] = by_channel.transpose(0, 2, 3, 1).reshape(128, -1)
        linear2.weight[...] = weights["linear2"]
        self.optimizer = nn.SGD(self.network, RATE, MOMENTUM)

    def prepare(self, images, labels):
        return images, labels

    def step(self, images, labels):
        loss, gradient = self.nn.softmax_cross_entropy(self.network(images), labels)
        self.network.backward(gradient)
        self.optimizer.step()
        return loss

    def layers(self, images, labels):
        """One step; yields what ran after each part of it."""
        x = images
        for number, layer in enumerate(self.network.layers):
            x = layer.forward(x)
            yield self._name(number), "forward"
        _, gradient = self.nn.softmax_cross_entropy(x, labels)
        yield "loss", "forward"
        for number, layer in reversed(list(enumerate(self.network.layers))):
            gradient = layer.backward(gradient)
            yield self._name(number), "backward"
        self.optimizer.step()
        yield "optimizer", "step"

    @staticmethod
    def _name(number):
        return ("conv1+relu", "pool1", "conv2+relu", "pool2", "flatten", "linear1+relu", "linear2")[number]


class TorchSide:
    def __init__(self, threads, pixels, channels_last):
        import torch

        torch.set_num_threads(threads)
        self.torch = torch
        functions = torch.nn
        self.modules = [
            ("conv1+relu", functions.Sequential(functions.Conv2d(1, 16, 3, padding=1), functions.ReLU())),
            ("pool1", functions.MaxPool2d(2)),
            ("conv2+relu", functions.Sequential(functions.Conv2d(16, 32, 3, padding=1), functions.ReLU())),
            ("pool2", functions.MaxPool2d(2)),
            ("flatten", functions.Flatten()),
            ("linear1+relu", functions.Sequential(functions.Linear(32 * (pixels // 4) ** 2, 128), functions.ReLU())),
            ("linear2", functions.Linear(128, 10)),
        ]
        self.network = functions.Sequential(*(module for _, module in self.modules))
        parameters = dict(self.network.named_parameters())
        places = {"conv1": "0.0", "conv2": "2.0", "linear1": "5.0", "linear2": "6"}
        with torch.no_grad():
            for name, array in initial_weights(pixels).items():
                parameters[f"{places[name]}.weight"].copy_(torch.from_numpy(array))
                parameters[f"{places[name]}.bias"].zero_()
        self.format = torch.channels_last if channels_last else torch.contiguous_format
        self.network.to(memory_format=self.format)
        self.optimizer = torch.optim.SGD(self.network.parameters(), RATE, MOMENTUM)

    def prepare(self, images, labels):
        return self.torch.from_numpy(images).contiguous(memory_format=self.format), self.torch.from_numpy(labels)

    def step(self, images, labels):
        self.optimizer.zero_grad()
        loss = self.torch.nn.functional.cross_entropy(self.network(images), labels)
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def layers(self, images, labels):
        """One step, every layer cut off from the one before, so that each backward runs alone."""
        self.optimizer.zero_grad()
        x, ends = images, []
        for number, (name, module) in enumerate(self.modules):
            start = x.detach().requires_grad_(number > 0)
            x = module(start)
            ends.append((name, start, x))
            yield name, "forward"
        start = x.detach().requires_grad_()
        loss = self.torch.nn.functional.cross_entropy(start, labels)
        yield "loss", "forward"
        loss.backward()
        yield "loss", "backward"
        gradient = start.grad
        for name, start, end in reversed(ends):
            end.backward(gradient)
            gradient = start.grad
            yield name, "backward"
        self.optimizer.step()
        yield "optimizer", "step"


def run_side(name, threads, batch, pixels):
    """Answers a line of JSON to each line on the standard input: 'losses N', 'steps N', 'layers N' or 'end'."""
    side = OurSide(threads, pixels) if name == "numba_pool" else TorchSide(threads, pixels, name.endswith("last"))
    images, labels = make_batches(50, batch, pixels)
    prepared = [side.prepare(*pair) for pair in zip(images, labels, strict=True)]
    for line in sys.stdin:
        command, _, count = line.partition(" ")
        if command == "losses":
            answer = [float(side.step(*prepared[i])) for i in range(int(count))]
        elif command == "steps":
            begin = time.perf_counter()
            for i in range(int(count)):
                side.step(*prepared[i % len(prepared)])
            answer = time.perf_counter() - begin
        elif command == "layers":
            times = {}
            for i in range(int(count)):
                before = time.perf_counter()
                for key in side.layers(*prepared[i % len(prepared)]):
                    now = time.perf_counter()
                    times.setdefault(" ".join(key), []).append(now - before)
                    before = time.perf_counter()
            answer = {key: float(np.median(values)) for key, values in times.items()}
        else:
            return
        print(json.dumps(answer), flush=True)


class Process:
    def __init__(self, name, threads, batch, pixels=PIXELS):
        # The thread pools sleep between regions or spin as each library's default has it; only their size is set.
        environment = os.environ | {"OMP_NUM_THREADS": str(threads), "NUMBA_NUM_THREADS": str(threads)}
        command = [sys.executable, __file__, "--side", name, "--threads", str(threads), "--batch-size", str(batch),
                   "--pixels", str(pixels)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit(f"the process {' '.join(map(str, self.process.args))} ended")
        return json.loads(answer)

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


def torch_rate(threads, batch, pixels):
    """Images per second of PyTorch's training step, in its faster memory order."""
    rates = []
    for name in SIDES[1:]:
        side = Process(name, threads, batch, pixels)
        side.ask("steps 10")
        rates += [batch * 20 / side.ask("steps 20") for _ in range(3)]
        side.close()
    return max(rates)


def parse_options(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=9, help="turns of each side; the median counts")
    parser.add_argument("--steps", type=int, default=100, help="steps a turn")
    parser.add_argument("--losses", type=int, default=50, help="steps whose losses are compared (at most 50)")
    parser.add_argument("--pixels", type=int, default=PIXELS, help="images are so high and so wide")
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def main(arguments=None):
    options = parse_options(arguments)
    if options.side:
        return run_side(options.side, options.threads, options.batch_size, options.pixels)
    try:
        import torch
    except ImportError:
        print("this script compares with PyTorch: pip install torch", file=sys.stderr)
        return 2
    print(f"{platform.processor() or platform.machine()}, {options.threads} threads, torch {torch.__version__}")

    sides = {name: Process(name, options.threads, options.batch_size, options.pixels) for name in SIDES}
    losses = {name: np.array(side.ask(f"losses {options.losses}")) for name, side in sides.items()}
    difference = max(float(np.abs(losses[name] - losses["torch"]).max()) for name in SIDES)
    ours = losses["numba_pool"]
    print(f"loss {ours[0]:.4f} to {ours[-1]:.4f} in {len(ours)} steps; the sides differ by {difference:.1e} at most")

    turns = {name: [] for name in SIDES}
    for _ in range(options.rounds):
        for name, side in sides.items():
            turns[name].append(options.batch_size * options.steps / side.ask(f"steps {options.steps}"))
    rates = {name: float(np.median(values)) for name, values in turns.items()}
    for name in SIDES:
        ratio = np.median(np.array(turns["numba_pool"]) / np.array(turns[name]))
        against = "" if name == "numba_pool" else f"   numba_pool: {ratio:.2f} times this"
        print(f"{name:20} {rates[name]:8,.0f} images/s{against}")

    parts = {name: side.ask(f"layers {options.steps}") for name, side in sides.items()}
    for side in sides.values():
        side.close()
    print(f"\nmicroseconds, median of {options.steps} steps; between layers every side waits for the clock")
    print(f"{'':24}" + "".join(f"{name:>22}" for name in SIDES))
    for key in dict.fromkeys(key for times in parts.values() for key in times):
        print(
            f"{key:24}"
            + "".join(f"{times[key] * 1e6:22,.0f}" if key in times else f"{'':22}" for times in parts.values())
        )
    print(f"{'sum':24}" + "".join(f"{sum(times.values()) * 1e6:22,.0f}" for times in parts.values()))
    return 0 if difference <= 1e-4 else 1


if __name__ == "__main__":
    sys.exit(main())
