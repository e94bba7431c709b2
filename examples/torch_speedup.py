"""How much faster whole PyTorch models become
============================================

What `numba_pool.torch.accelerate` does to inference and to a training step of known networks.

    python examples/torch_speedup.py                                   # both tables, in half an hour
    python examples/torch_speedup.py --models lenet unet --modes train --threads 1 --compiled

Needs torch. The networks are defined below, in a few lines each, and run on small batches. Each is there twice, with
the same weights: as torch has it, and accelerated. Both take turns in one process, so that a noisy neighbour hits both.
A speed-up is the median of the ratios of neighbouring turns, and milliseconds are medians. The share of pooling is what
torch's profiler finds in torch's network. All is done three times, each time in a new process, since processes differ
more than turns do: what is printed are the medians of these runs.

Both tables are Markdown: the long one stands in docs/torch.md, the short one in the README.
"""

import argparse
import copy
import datetime
import multiprocessing
import os
import statistics
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from typing import NamedTuple

import numba_pool

try:
    import torch
    from torch import nn
except ImportError:
    torch = None


if torch is not None:
    from numba_pool.torch import accelerate

    def conv(inputs, outputs, size=3, stride=1, norm=False):
        layers = [nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=not norm)]
        layers += [nn.BatchNorm2d(outputs)] if norm else []
        return nn.Sequential(*layers, nn.ReLU(inplace=True))

    def lenet():
        return nn.Sequential(
            nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
            nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10),
        )  # fmt: skip

    def vgg11():
        layers, channels = [], 3
        for width in (64, "M", 128, "M", 256, 256, "M", 512, 512, "M", 512, 512, "M"):
            if width == "M":
                layers.append(nn.MaxPool2d(2))
            else:
                layers.append(conv(channels, width))
                channels = width
        return nn.Sequential(*layers, nn.Flatten(), nn.Linear(512, 10))

    def alexnet():
        return nn.Sequential(
            nn.Conv2d(3, 64, 11, 4, 2), nn.ReLU(), nn.MaxPool2d(3, 2), conv(64, 192, 5), nn.MaxPool2d(3, 2),
            conv(192, 384), conv(384, 256), conv(256, 256), nn.MaxPool2d(3, 2), nn.AdaptiveAvgPool2d(6), nn.Flatten(),
            nn.Linear(256 * 36, 512), nn.ReLU(), nn.Linear(512, 10),
        )  # fmt: skip

    class Inception(nn.Module):
        """Four ways side by side, one of them a 3x3 maximum of stride 1."""

        def __init__(self, inputs, a, b, c, d):
            super().__init__()
            self.ways = nn.ModuleList((
                conv(inputs, a, 1), nn.Sequential(conv(inputs, b[0], 1), conv(b[0], b[1])),
                nn.Sequential(conv(inputs, c[0], 1), conv(c[0], c[1])),
                nn.Sequential(nn.MaxPool2d(3, 1, 1), conv(inputs, d, 1)),
            ))  # fmt: skip

        def forward(self, x):
            return torch.cat([way(x) for way in self.ways], 1)

    def googlenet():
        return nn.Sequential(
            conv(3, 64, 7, 2), nn.MaxPool2d(3, 2, ceil_mode=True), conv(64, 64, 1), conv(64, 192),
            nn.MaxPool2d(3, 2, ceil_mode=True),
            Inception(192, 64, (96, 128), (16, 32), 32), Inception(256, 128, (128, 192), (32, 96), 64),
            nn.MaxPool2d(3, 2, ceil_mode=True),
            Inception(480, 192, (96, 208), (16, 48), 64), Inception(512, 160, (112, 224), (24, 64), 64),
            Inception(512, 128, (128, 256), (24, 64), 64), Inception(512, 112, (144, 288), (32, 64), 64),
            Inception(528, 256, (160, 320), (32, 128), 128), nn.MaxPool2d(2, 2, ceil_mode=True),
            Inception(832, 256, (160, 320), (32, 128), 128), Inception(832, 384, (192, 384), (48, 128), 128),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1024, 10),
        )  # fmt: skip

    class Residual(nn.Module):
        def __init__(self, inputs, outputs, stride):
            super().__init__()
            self.body = nn.Sequential(conv(inputs, outputs, 3, stride, norm=True),
                                      nn.Conv2d(outputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs))
            same = stride == 1 and inputs == outputs
            self.shortcut = nn.Identity() if same else nn.Conv2d(inputs, outputs, 1, stride)

        def forward(self, x):
            return torch.relu(self.body(x) + self.shortcut(x))

    def resnet18():
        widths = (64, 64, 128, 128, 256, 256, 512, 512)
        blocks = [Residual(a, b, 2 if a != b else 1) for a, b in zip((64, *widths), widths)]
        return nn.Sequential(conv(3, 64, 7, 2, norm=True), nn.MaxPool2d(3, 2, 1), *blocks, nn.AdaptiveAvgPool2d(1),
                             nn.Flatten(), nn.Linear(512, 10))

    class UNet(nn.Module):
        """Three levels; what is pooled comes back by the shortcuts."""

        def __init__(self, width=16):
            super().__init__()
            widths = [width << level for level in range(4)]
            self.down = nn.ModuleList(nn.Sequential(conv(a, b), conv(b, b)) for a, b in zip((1, *widths), widths))
            self.pool = nn.MaxPool2d(2)
            self.raise_ = nn.ModuleList(nn.ConvTranspose2d(2 * w, w, 2, 2) for w in widths[:-1])
            self.up = nn.ModuleList(nn.Sequential(conv(2 * w, w), conv(w, w)) for w in widths[:-1])
            self.head = nn.Sequential(nn.Conv2d(width, 2, 1))

        def forward(self, x):
            shortcuts = []
            for level, block in enumerate(self.down):
                x = block(x if level == 0 else self.pool(x))
                shortcuts.append(x)
            for level in (2, 1, 0):
                x = self.up[level](torch.cat((shortcuts[level], self.raise_[level](x)), 1))
            return self.head(x)

    # the network, the shape of its batch, and its name
    MODELS = {
        "googlenet": (googlenet, (2, 3, 224, 224), "GoogLeNet"),
        "lenet": (lenet, (64, 1, 28, 28), "LeNet"),
        "lenet1": (lenet, (1, 1, 28, 28), "LeNet"),
        "alexnet": (alexnet, (4, 3, 224, 224), "AlexNet"),
        "vgg11": (vgg11, (16, 3, 32, 32), "VGG-11"),
        "resnet18": (resnet18, (2, 3, 224, 224), "ResNet-18"),
        "unet": (UNet, (2, 1, 128, 128), "U-Net"),
    }
    LAYOUTS = {"plain": torch.contiguous_format, "last": torch.channels_last}


MODES = {"infer": "inference", "train": "training"}
LAYOUT_NAMES = {"plain": "", "last": ", channels last"}


class Line(NamedTuple):
    """What was measured of one network."""

    name: str
    batch: str
    mode: str
    layout: str
    threads: int
    before: float  # milliseconds of torch
    after: float  # and of the accelerated network
    share: float  # of pooling
    ratio: float

    def cells(self):
        """Of the long table."""
        return (self.name, self.batch, MODES[self.mode], self.layout, self.threads, short(self.before),
                short(self.after), f"{self.share:.0%}", f"{1 / (1 - self.share):.2f}", f"{self.ratio:.2f}")


HEAD = ("network", "batch", "step", "layout", "threads", "torch, ms", "accelerated, ms", "pooling's share", "at most",
        "speed-up")


def short(milliseconds):
    return f"{milliseconds:.0f}" if milliseconds >= 100 else f"{milliseconds:.3g}"


def row(cells):
    return f"| {' | '.join(map(str, cells))} |"


def head(cells):
    return f"{row(cells)}\n|{'---|' * len(cells)}"


def summary(lines):
    """The short table: a row for each network and number of threads."""
    columns = list(dict.fromkeys((line.layout, line.mode) for line in lines))
    several = len({line.threads for line in lines}) > 1
    rows = {}
    for line in lines:
        name = f"{line.name} {line.batch}" + (f", {line.threads} threads" if several else "")
        rows.setdefault(name, {})[line.layout, line.mode] = (
            f"**{line.ratio:.2f}** ({short(line.before)} → {short(line.after)} ms)")
    names = [MODES[mode] + LAYOUT_NAMES[layout] for layout, mode in columns]
    return "\n".join([head(["", *names]), *(row([name, *map(found.get, columns)]) for name, found in rows.items())])


def stepper(model, x, mode):
    """A function that does one step."""
    if mode == "infer":
        model.eval()

        def infer():
            with torch.no_grad():
                return model(x)

        return infer
    optimizer = torch.optim.SGD(model.parameters(), 1e-4)

    def train():
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return train


def timed(step):
    start = time.perf_counter()
    step()
    return time.perf_counter() - start


def by_turns(own, ours, seconds):
    """The medians of the times of each, and of the ratios of neighbouring turns."""
    for step in (own, ours):  # to compile, and to fill caches
        step()
        step()
    pairs, end = [], time.perf_counter() + seconds
    while len(pairs) < 3 or time.perf_counter() < end:
        first = len(pairs) % 2
        times = [timed(step) for step in ((own, ours) if not first else (ours, own))]
        pairs.append(times[::-1] if first else times)
    return *map(statistics.median, zip(*pairs)), statistics.median(a / b for a, b in pairs)


def share_of_pooling(step):
    """How much of torch's step is spent in its pooling and in what that calls, by its profiler: the median of some."""
    shares = []
    for _ in range(6):
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            step()
        events = profile.events()
        pooling = sum(e.cpu_time_total for e in events if is_pooling(e) and not is_pooling(e.cpu_parent))
        shares.append(pooling / sum(e.self_cpu_time_total for e in events))
    return statistics.median(shares[1:])


def is_pooling(event):
    return event is not None and "pool" in event.name.lower()


def measure(name, layout, mode, compiled, seconds, smallest=False):
    torch.manual_seed(0)
    build, shape, title = MODELS[name]
    x = torch.randn((1, *shape[1:]) if smallest else shape).contiguous(memory_format=LAYOUTS[layout])
    own = build().to(memory_format=LAYOUTS[layout])
    ours = accelerate(copy.deepcopy(own))
    share = share_of_pooling(stepper(copy.deepcopy(own), x, mode))
    if compiled:
        own, ours = torch.compile(own), torch.compile(ours)
    before, after, ratio = by_turns(stepper(own, x, mode), stepper(ours, x, mode), seconds)
    return Line(title, "x".join(map(str, x.shape)), mode, layout, torch.get_num_threads(), 1e3 * before, 1e3 * after,
                share, ratio)


def measure_all(options):
    """A run: a line for every choice of the options."""
    lines = []
    for threads in options.threads:
        torch.set_num_threads(threads)
        for layout in options.layouts:
            for mode in options.modes:
                for name in options.models:
                    lines.append(measure(name, layout, mode, options.compiled, options.seconds, options.smallest))
                    print(row(lines[-1].cells()), file=sys.stderr, flush=True)
    return lines


def medians(runs):
    """The lines of several runs as those of one: the medians of what was measured."""
    return [lines[0]._replace(**{field: statistics.median(getattr(line, field) for line in lines)
                                 for field in ("before", "after", "share", "ratio")})
            for lines in zip(*runs, strict=True)]


def main(argv=None):
    if torch is None:
        print("This needs PyTorch: pip install '.[torch]' in the clone", file=sys.stderr)
        return 2
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--layouts", nargs="+", default=list(LAYOUTS), choices=list(LAYOUTS))
    parser.add_argument("--modes", nargs="+", default=list(MODES), choices=list(MODES))
    parser.add_argument("--threads", nargs="+", type=int, default=[torch.get_num_threads()])
    parser.add_argument("--compiled", action="store_true", help="by torch.compile, which takes a minute a network")
    parser.add_argument("--seconds", type=float, default=10, help="for each line of the long table, in each run")
    parser.add_argument("--runs", type=int, default=3, help="whose medians are printed")
    parser.add_argument("--smallest", action="store_true", help="one image, to see that it runs")
    options = parser.parse_args(argv)
    how = "compiled" if options.compiled else "eager"
    threads = " and ".join(map(str, options.threads))
    processor = numba_pool.show_config("dicts")["vectors"]["model"]
    where = (f"Float32, {how}, {processor}, {os.cpu_count()} cores, threads: {threads}, torch {torch.__version__}, "
             f"medians of {options.runs} runs, {datetime.date.today()}.")
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), max_tasks_per_child=1) as pool:
        lines = medians(list(pool.map(measure_all, [options] * options.runs)))
    print("\n".join([where, "", head(HEAD), *(row(line.cells()) for line in lines)]))
    print(f"\n\n{where}\n\n{summary(lines)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
