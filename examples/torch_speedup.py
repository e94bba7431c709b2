"""How much faster whole PyTorch models become
============================================

What `numba_pool.torch.accelerate` does to inference and to a training step of known networks.

    pip install torchvision timm                                       # or without: then a few networks
    python examples/torch_speedup.py                                   # both tables, in an hour
    python examples/torch_speedup.py --models lenet unet --modes train --threads 1 --compiled

Needs torch. A few networks are defined below, the others are torchvision's and timm's, drawn at random. Each is there
twice, with the same weights: as torch has it, and accelerated. Both take turns in one process, so that a noisy
neighbour hits both. A speed-up is the median of the ratios of neighbouring turns. Turns go on until that median is
known to 2 %, with a confidence of 95 %, or for four times `--seconds`. The share of pooling is what torch's profiler
finds in torch's network.

Both tables are Markdown: the long one stands in docs/torch.md, the short one in the README.
"""

import argparse
import copy
import datetime
import functools
import importlib
import math
import os
import statistics
import sys
import time
import warnings
from typing import NamedTuple

import numba_pool

try:
    import torch
    from torch import nn
    from torch.nn import functional as F
except ImportError:
    torch = None


if torch is not None:
    from numba_pool.torch import accelerate

    def conv(inputs, outputs):
        return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU(inplace=True))

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

    class SPPF(nn.Module):
        """The block of YOLO models that pools its input three times over, by functions."""

        def __init__(self, channels):
            super().__init__()
            half = channels // 2
            self.reduce, self.merge = nn.Conv2d(channels, half, 1), nn.Conv2d(4 * half, channels, 1)

        def forward(self, x):
            x = self.reduce(x)
            a = F.max_pool2d(x, 5, 1, 2)
            b = F.max_pool2d(a, 5, 1, 2)
            return self.merge(torch.cat((x, a, b, F.max_pool2d(b, 5, 1, 2)), 1))

    # The networks that are defined here: what makes each, the shape of its batch, and its name.
    MODELS = {
        "lenet": (lenet, (64, 1, 28, 28), "LeNet"),
        "lenet1": (lenet, (1, 1, 28, 28), "LeNet"),
        "vgg11": (vgg11, (16, 3, 32, 32), "VGG-11"),
        "unet": (UNet, (2, 1, 128, 128), "U-Net"),
        "sppf256": (lambda: SPPF(256), (2, 256, 20, 20), "SPPF, 256 channels"),
        "sppf512": (lambda: SPPF(512), (2, 512, 20, 20), "SPPF, 512 channels"),
    }
    LAYOUTS = {"plain": torch.contiguous_format, "last": torch.channels_last}


OF_TORCHVISION = (
    "alexnet", "vgg11_bn", "resnet18", "resnet50", "densenet121", "squeezenet1_0", "squeezenet1_1", "googlenet",
    "inception_v3", "shufflenet_v2_x1_0", "mobilenet_v2", "mobilenet_v3_small", "efficientnet_b0", "regnet_y_400mf",
    "convnext_tiny", "swin_t",
)  # fmt: skip
OF_TIMM = (
    "poolformer_s12", "resnet26t", "ghostnetv2_100", "dla34", "dpn68", "skresnet18", "ese_vovnet19b_dw", "hgnetv2_b0",
    "resnest14d", "seresnext26d_32x4d", "coatnet_nano_rw_224", "efficientformer_l1",
)  # fmt: skip
# The rows of the README's table.
SHORT = ("googlenet 2x3x224x224", "inception_v3 2x3x299x299", "squeezenet1_1 2x3x224x224", "poolformer_s12 2x3x224x224",
         "SPPF, 512 channels 2x512x20x20", "LeNet 64x1x28x28", "LeNet 1x1x28x28")


def found_networks():
    """The networks of this file, and those of the libraries that are installed."""
    found = dict(MODELS)
    for library, names in (("torchvision", OF_TORCHVISION), ("timm", OF_TIMM)):
        try:
            module = importlib.import_module("torchvision.models" if library == "torchvision" else library)
        except ImportError:
            print(f"{library} is not installed: without {', '.join(names)}", file=sys.stderr)
            continue
        build = module.get_model if library == "torchvision" else module.create_model
        for name in names:
            size = 299 if name.startswith("inception") else 224
            found[name] = (functools.partial(build, name), (2, 3, size, size), name)
    return found


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
    ratios: list[float]  # of neighbouring turns

    @property
    def ratio(self):
        return statistics.median(self.ratios)


def bounds(ratios):
    """Between which values the median lies, with a confidence of 95 %, whatever the distribution."""
    if len(ratios) < 6:
        return 0.0, math.inf
    ratios, reach = sorted(ratios), len(ratios) ** 0.5
    middle = (len(ratios) - 1) / 2
    return ratios[max(0, math.floor(middle - reach))], ratios[min(len(ratios) - 1, math.ceil(middle + reach))]


def short(milliseconds):
    return f"{milliseconds:.0f}" if milliseconds >= 100 else f"{milliseconds:.3g}"


def table(head, rows):
    rows = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(str, cells))} |" for cells in rows)


def speed_ups(lines):
    """The long table: of each network the shares of pooling, and the speed-ups with each number of threads."""
    kinds = list(dict.fromkeys((line.mode, line.layout) for line in lines))
    found = {}
    for line in lines:
        found.setdefault((line.name, line.batch), {}).setdefault((line.mode, line.layout), []).append(line)
    head = ["network", "batch", *(MODES[mode] + LAYOUT_NAMES[layout] for mode, layout in kinds)]
    return table(head, [
        [*network, *(f"{' / '.join(f'{line.ratio:.2f}' for line in cells[kind])} ({cells[kind][0].share:.0%})"
                     for kind in kinds)]
        for network, cells in found.items()
    ])  # fmt: skip


def in_milliseconds(lines):
    """The short table: some networks with the largest number of threads."""
    most = max(line.threads for line in lines)
    kinds = list(dict.fromkeys((line.mode, line.layout) for line in lines))
    found = {}
    for line in lines:
        if line.threads == most and f"{line.name} {line.batch}" in SHORT:
            found.setdefault(f"{line.name} {line.batch}", {})[line.mode, line.layout] = (
                f"**{line.ratio:.2f}** ({short(line.before)} → {short(line.after)} ms)")
    head = ["", *(MODES[mode] + LAYOUT_NAMES[layout] for mode, layout in kinds)]
    return table(head, [[name, *map(cells.get, kinds)] for name, cells in found.items()])


def summary(lines):
    """The median of all, and what became slower by more than 2 % for sure."""
    slower = [f"{line.name} {line.batch}, {MODES[line.mode]}{LAYOUT_NAMES[line.layout]}, threads: {line.threads}, "
              f"{line.ratio:.2f}" for line in lines if bounds(line.ratios)[1] < 0.98]  # fmt: skip
    ratios = [line.ratio for line in lines]
    return (f"The median of the {len(ratios)} speed-ups is {statistics.median(ratios):.2f}, the least "
            f"{min(ratios):.2f}, the largest {max(ratios):.2f}. Slower by more than 2 %, with a confidence of 95 %: "
            f"{'; '.join(slower) or 'none'}.")  # fmt: skip


def stepper(model, x, mode):
    """A function that does one step."""
    if mode == "infer":
        model.eval()

        def infer():
            with torch.no_grad():
                return model(x)

        return infer
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), 1e-6)

    def train():
        optimizer.zero_grad()
        y = model(x)
        outputs = [y] if isinstance(y, torch.Tensor) else [output for output in y if output is not None]
        loss = sum(output.square().mean() for output in outputs)  # some networks have heads at the side, too
        loss.backward()
        optimizer.step()
        return loss.detach()

    return train


def timed(step):
    start = time.perf_counter()
    step()
    return time.perf_counter() - start


def by_turns(own, ours, seconds):
    """The medians of the times of each, and the ratios of neighbouring turns."""
    for step in (own, ours):  # to compile, and to fill caches
        step()
        step()
    pairs, start = [], time.perf_counter()
    while len(pairs) < 3 or (taken := time.perf_counter() - start) < seconds or (
            taken < 4 * seconds and is_unsure([a / b for a, b in pairs])):
        first = len(pairs) % 2
        times = [timed(step) for step in ((own, ours) if not first else (ours, own))]
        pairs.append(times[::-1] if first else times)
    return *map(statistics.median, zip(*pairs)), [a / b for a, b in pairs]


def is_unsure(ratios):
    low, high = bounds(ratios)
    return high - low > 0.04


def share_of_pooling(step):
    """How much of torch's step is spent in its pooling and in what that calls, by its profiler: the median of some."""
    shares = []
    for _ in range(4):
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            step()
        events = profile.events()
        pooling = sum(e.cpu_time_total for e in events if is_pooling(e) and not is_pooling(e.cpu_parent))
        shares.append(pooling / sum(e.self_cpu_time_total for e in events))
    return statistics.median(shares[1:])


def is_pooling(event):
    return event is not None and "pool" in event.name.lower()


def measure(network, layout, mode, threads, options):
    """A line for each number of threads."""
    torch.manual_seed(0)
    build, shape, title = network
    x = torch.randn((1, *shape[1:]) if options.smallest else shape).contiguous(memory_format=LAYOUTS[layout])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torchvision, about how weights are drawn
        own = build().to(memory_format=LAYOUTS[layout])
    # Of the same weights, as where they lie in memory makes a difference of a few percent.
    ours = accelerate(copy.deepcopy(own, {id(weights): weights for weights in (*own.parameters(), *own.buffers())}))
    share = share_of_pooling(stepper(copy.deepcopy(own), x, mode))
    if options.compiled:
        own, ours = torch.compile(own), torch.compile(ours)
    steps = stepper(own, x, mode), stepper(ours, x, mode)
    for count in threads:
        torch.set_num_threads(count)
        before, after, ratios = by_turns(*steps, options.seconds)
        yield Line(title, "x".join(map(str, x.shape)), mode, layout, count, 1e3 * before, 1e3 * after, share, ratios)


def main(argv=None):
    if torch is None:
        print("This needs PyTorch: pip install '.[torch]' in the clone", file=sys.stderr)
        return 2
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--models", nargs="+", metavar="NAME", help="such as lenet, googlenet or poolformer_s12")
    parser.add_argument("--layouts", nargs="+", default=list(LAYOUTS), choices=list(LAYOUTS))
    parser.add_argument("--modes", nargs="+", default=list(MODES), choices=list(MODES))
    parser.add_argument("--threads", nargs="+", type=int, default=sorted({1, torch.get_num_threads()}))
    parser.add_argument("--compiled", action="store_true", help="by torch.compile, which takes a minute a network")
    parser.add_argument("--seconds", type=float, default=2, help="for each speed-up, up to four times as many")
    parser.add_argument("--smallest", action="store_true", help="one image, to see that it runs")
    options = parser.parse_args(argv)
    networks = found_networks()
    if unknown := set(options.models or ()) - networks.keys():
        parser.error(f"no such network: {', '.join(unknown)}; there are {', '.join(networks)}")
    lines = []
    for name in options.models or networks:
        for layout in options.layouts:
            for mode in options.modes:
                for line in measure(networks[name], layout, mode, options.threads, options):
                    lines.append(line)
                    print(f"{line.name} {line.batch} {mode} {layout} {line.threads} {line.share:.1%} "
                          f"{line.before:.3g} {line.after:.3g} {line.ratio:.3f} {bounds(line.ratios)}",
                          file=sys.stderr, flush=True)  # fmt: skip
    how = "compiled" if options.compiled else "eager"
    processor = numba_pool.show_config("dicts")["vectors"]["model"]
    where = (f"Float32, {how}, {processor}, {os.cpu_count()} cores, threads: "
             f"{' / '.join(map(str, options.threads))}, torch {torch.__version__}, {datetime.date.today()}.")
    print("\n".join([f"{where} In parentheses the share of pooling.", "", speed_ups(lines), "", summary(lines)]))
    print(f"\n\n{where}\n\n{in_milliseconds(lines)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
