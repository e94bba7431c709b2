"""examples/train_mnist.py: its options, checkpoints, Ctrl-C and pictures, on few and small images."""

import gzip
import hashlib
import re
import signal
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest
from test_example_data import mnist_files, serve, write

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))

import data
import kernels
import plots
import train_mnist

import numba_pool

THREADS = numba.config.NUMBA_NUM_THREADS
SMALL = ["--subset", "100", "--batch-size", "32", "--no-plots", "--no-compare"]


@pytest.fixture(autouse=True)
def threads():
    before = numba_pool.get_num_threads()
    yield
    numba_pool.set_num_threads(before)


def contents(path):
    with np.load(path) as archive:
        return {name: archive[name] for name in archive.files}


def assert_same(first, second):
    first, second = ({**contents(path), "others": None} for path in (first, second))  # how many epochs were wanted
    assert first.keys() == second.keys()
    for name in first:
        np.testing.assert_array_equal(first[name], second[name], err_msg=name)


def test_from_the_command_line(tmp_path):
    command = [sys.executable, train_mnist.__file__, *SMALL, "--epochs", "1", "--quiet"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=True)
    pattern = r"test accuracy \d+\.\d\d% \(\d+ of 355 wrong\) after 1 epochs, .* s of training \(.* images/s\), .*\n"
    assert re.fullmatch(pattern, done.stdout)
    assert done.stderr == ""


@pytest.mark.parametrize("terminal", [True, False])
def test_what_it_prints(capsys, monkeypatch, terminal):
    """The bar is for terminals only."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    assert train_mnist.main([*SMALL, "--epochs", "2"]) == 0
    out, err = capsys.readouterr()
    assert "no --data-dir and no --download: training on the 8x8 digits" in out
    assert "100 to train, 355 to test, 8x8 pixels" in out
    assert re.search(r"compiles: .*\nruns on: .* 1 thread \((omp|tbb|workqueue)\), compiled in \d+\.\d s\n", out)
    assert len(re.findall(r"^epoch  \d/2  loss \d\.\d{4}  test accuracy +\d+\.\d\d% +[\d,]+ images/s$", out, re.M)) == 2
    if terminal:
        assert "images/s" in err
        assert re.search(r"loss \d\.\d{4}", err)
    else:
        assert err == ""


@pytest.mark.parametrize("pool", ["max", "avg", "strided"])
@pytest.mark.parametrize("head", ["dense", "gap"])
def test_pools_and_heads_learn(pool, head, tmp_path):
    """On 100 digits, 30 epochs: guessing is right once in ten, and gives a loss of log 10 = 2.3."""
    path = tmp_path / "end.npz"
    options = [*SMALL, "--epochs", "30", "--lr-decay", "1", "--pool", pool, "--head", head, "--quiet"]
    assert train_mnist.main([*options, "--checkpoint", str(path), "--no-augment"]) == 0
    end = contents(path)
    assert end["losses"][-4:].mean() < (0.5 if head == "dense" else 2.1)
    assert end["accuracies"][-1] > (0.6 if head == "dense" else 0.25)


def test_the_layers_are_what_the_options_say():
    def names(pool, head, shape=(8, 8)):
        network = train_mnist.build(pool, head, shape, np.random.default_rng(0))
        return [type(layer).__name__ for layer in network.layers], network

    dense = ["Conv2d", "MaxPool2d", "Conv2d", "MaxPool2d", "Flatten", "Linear", "Linear"]
    assert names("max", "dense")[0] == dense
    assert names("avg", "dense")[0] == [name.replace("MaxPool", "AvgPool") for name in dense]
    kinds, network = names("strided", "gap")
    assert kinds == ["Conv2d"] * 4 + ["GlobalAvgPool", "Flatten", "Linear"]
    assert [layer.stride for layer in network.layers[:4]] == [1, 2, 1, 2]
    # MNIST: conv 1->16, conv 16->32, linear 1568->128, linear 128->10
    _, network = names("max", "dense", (28, 28))
    assert network.values.size == 9 * 16 + 16 + 9 * 16 * 32 + 32 + 1568 * 128 + 128 + 1280 + 10
    with pytest.raises(data.DataError, match="at least 4x4 to be halved twice, got 3x8"):
        names("max", "dense", (3, 8))


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_resuming_is_bit_for_bit_the_uninterrupted_run(tmp_path, optimizer, capsys):
    whole, halves = tmp_path / "whole.npz", tmp_path / "halves.npz"
    options = [*SMALL, "--optimizer", optimizer, "--seed", "5", "--quiet"]
    assert train_mnist.main([*options, "--epochs", "4", "--checkpoint", str(whole)]) == 0
    assert train_mnist.main([*options, "--epochs", "2", "--checkpoint", str(halves)]) == 0
    assert len(contents(halves)["losses"]) == 8
    assert train_mnist.main([*options, "--epochs", "4", "--resume", str(halves), "--threads", str(THREADS)]) == 0
    assert_same(whole, halves)
    # a finished run has nothing left to do, and says the same
    first = capsys.readouterr().out.splitlines()[-1]
    assert train_mnist.main([*options, "--epochs", "4", "--resume", str(halves)]) == 0
    assert capsys.readouterr().out.split(" after")[0] == first.split(" after")[0]


def interrupt_after(monkeypatch, count):
    train_batch, calls = train_mnist.train_batch, []

    def counting(*arguments):
        calls.append(1)
        if len(calls) == count + 1:  # the first call is the warm-up's
            signal.raise_signal(signal.SIGINT)
        return train_batch(*arguments)

    monkeypatch.setattr(train_mnist, "train_batch", counting)


@pytest.mark.parametrize("batches", [2, 4, 7])  # of 4 an epoch
def test_ctrl_c_keeps_the_checkpoint(tmp_path, monkeypatch, capsys, batches):
    whole, path = tmp_path / "whole.npz", tmp_path / "stopped.npz"
    options = [*SMALL, "--epochs", "3", "--quiet"]
    assert train_mnist.main([*options, "--checkpoint", str(whole)]) == 0
    with monkeypatch.context() as patch:
        interrupt_after(patch, batches)
        before = signal.getsignal(signal.SIGINT)
        assert train_mnist.main([*options, "--checkpoint", str(path)]) == 130
        assert signal.getsignal(signal.SIGINT) is before
    assert f"interrupted after {batches} batches; go on with --resume {path}" in capsys.readouterr().out
    assert len(contents(path)["losses"]) == batches
    assert train_mnist.main([*options, "--resume", str(path)]) == 0
    assert_same(whole, path)


def test_ctrl_c_without_a_checkpoint_makes_one(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    whole = tmp_path / "whole.npz"
    options = ["--subset", "100", "--batch-size", "32", "--pool", "avg", "--lr", "0.02", "--seed", "3", "--epochs", "3"]
    quiet = ["--no-plots", "--quiet"]
    assert train_mnist.main([*options, *quiet, "--checkpoint", str(whole)]) == 0
    with monkeypatch.context() as patch:
        interrupt_after(patch, 1)
        assert train_mnist.main([*options, *quiet]) == 130
    assert "interrupted after 1 batches; go on with --resume train_mnist.npz" in capsys.readouterr().out
    # resumed without a word about its options
    assert train_mnist.main(["--resume", "train_mnist.npz", *quiet]) == 0
    assert_same(whole, tmp_path / "train_mnist.npz")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["train_mnist.npz", "whole.npz"]


def test_resuming_takes_options_from_the_checkpoint(tmp_path):
    write(tmp_path, mnist_files(40, 10, 28))
    path = tmp_path / "c.npz"
    options = ["--data-dir", str(tmp_path), "--subset", "30", "--head", "gap", "--optimizer", "adam", "--no-augment"]
    assert train_mnist.main([*options, "--epochs", "1", "--checkpoint", str(path), "--no-plots", "--quiet"]) == 0
    taken = train_mnist.parse_options(["--resume", str(path), "--epochs", "7", "--plots", "there"])
    assert (taken.data_dir, taken.subset, taken.head, taken.optimizer) == (tmp_path, 30, "gap", "adam")
    assert (taken.augment, taken.lr, taken.lr_decay, taken.batch_size) == (False, 0.005, 0.75, 64)
    assert (taken.epochs, taken.plots, taken.checkpoint) == (7, Path("there"), path)


def test_a_checkpoint_without_the_other_options(tmp_path):
    """As an earlier version wrote them."""
    path = tmp_path / "c.npz"
    assert train_mnist.main([*SMALL, "--epochs", "1", "--checkpoint", str(path), "--quiet"]) == 0
    arrays = contents(path)
    del arrays["others"]
    np.savez(path, **arrays)
    assert train_mnist.main([*SMALL, "--epochs", "1", "--resume", str(path), "--quiet"]) == 0


def test_a_second_ctrl_c_does_not_wait():
    def press_twice():
        with train_mnist.interruptible() as pressed:
            signal.raise_signal(signal.SIGINT)
            assert pressed
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        press_twice()


def test_a_checkpoint_of_another_run_is_refused(tmp_path, capsys):
    path = tmp_path / "c.npz"
    options = [*SMALL, "--epochs", "1", "--quiet"]
    assert train_mnist.main([*options, "--checkpoint", str(path)]) == 0
    kept = path.read_bytes()
    for other, message in [
        (["--pool", "avg"], "made with other options: pool was max, is avg"),
        (["--seed", "1"], "seed was 0, is 1; training data was"),  # another seed, another subset
        (["--no-augment"], "augment was True, is False"),
    ]:
        assert train_mnist.main([*options, *other, "--resume", str(path)]) == 2
        assert message in capsys.readouterr().err
    assert path.read_bytes() == kept
    for content, message in [(b"nonsense", "not a checkpoint that can be read"), (kept[:500], "not a checkpoint that")]:
        path.write_bytes(content)
        assert train_mnist.main([*options, "--resume", str(path)]) == 2
        assert message in capsys.readouterr().err
    np.savez(path, values=np.zeros(3))
    assert train_mnist.main([*options, "--resume", str(path)]) == 2
    assert "not a checkpoint of this script" in capsys.readouterr().err


def test_the_test_digits_do_not_influence_training():
    """No leak: with other test images and labels, every weight comes out the same."""
    results = []
    for seed in (None, 1):
        digits = data.subset(data.load_bundled(), 100, 0)
        if seed is not None:
            rng = np.random.default_rng(seed)
            digits.test_images = rng.random(digits.test_images.shape, dtype=np.float32)
            digits.test_labels = rng.integers(0, 10, len(digits.test_labels))
        options = train_mnist.parse_options([*SMALL, "--epochs", "2", "--lr-decay", "0.9", "--quiet"])
        run = train_mnist.start(options, digits)
        train_mnist.train(run, options, digits, {})
        results.append(run.network.values.copy())
    np.testing.assert_array_equal(results[0], results[1])


def test_an_epoch_has_every_training_digit_once():
    digits = data.subset(data.load_bundled(), 100, 0)
    options = train_mnist.parse_options([*SMALL, "--no-augment"])
    orders = []
    for epoch in (0, 0, 1):
        seen = [(i.tobytes(), n) for images, labels in train_mnist.batches(options, digits, epoch, 0)
                for i, n in zip(images, labels, strict=True)]  # fmt: skip
        expected = [(i.tobytes(), n) for i, n in zip(digits.train_images, digits.train_labels, strict=True)]
        assert sorted(seen) == sorted(expected)
        orders.append(seen)
    assert orders[0] == orders[1] != orders[2]
    rest = [(i.tobytes(), n) for images, labels in train_mnist.batches(options, digits, 1, 2)
            for i, n in zip(images, labels, strict=True)]  # fmt: skip
    assert rest == orders[2][2 * 32 :]


def test_warped():
    images = np.random.default_rng(0).random((3, 5, 6, 1), dtype=np.float32)
    same, down, half = np.eye(2, 3), np.eye(2, 3), np.eye(2, 3)
    down[0, 2], half[1, 2] = -1, 0.5  # looks one row up; half a column to the right
    turned = np.array([[-1.0, 0, 0], [0, -1, 0]])
    out = np.empty((4, 5, 6, 1), np.float32)
    kernels.warped(images, np.array([2, 1, 0, 1]), np.stack([same, down, half, turned]), out)
    np.testing.assert_array_equal(out[0], images[2])
    np.testing.assert_array_equal(out[1, 1:], images[1, :-1])
    np.testing.assert_array_equal(out[1, 0], 0)
    np.testing.assert_allclose(out[2, :, :-1], (images[0, :, :-1] + images[0, :, 1:]) / 2, rtol=1e-6)
    np.testing.assert_array_equal(out[3], images[1, ::-1, ::-1])


def test_mnist_files_from_a_folder_and_from_a_server(tmp_path, monkeypatch, capsys):
    mirror, target = tmp_path / "mirror", tmp_path / "target"
    mirror.mkdir()
    files = {f"{name}.gz": gzip.compress(content) for name, content in mnist_files(40, 10, 28).items()}
    write(mirror, files)
    checksums = {name.removesuffix(".gz"): hashlib.sha256(content).hexdigest() for name, content in files.items()}
    options = ["--epochs", "1", "--no-plots", "--no-compare", "--data-dir"]
    assert train_mnist.main([*options, str(target)]) == 2
    assert re.search(r"error: .*target: no such folder .*--download", capsys.readouterr().err)
    target.mkdir()
    assert train_mnist.main([*options, str(target)]) == 2
    assert re.search(r"error: .*target: no train-images-idx3-ubyte, .*--download", capsys.readouterr().err)
    with serve(mirror) as url:
        monkeypatch.setattr(data.download_mnist, "__defaults__", ((url,), checksums, print, 30))
        assert train_mnist.main([*options, str(target), "--download"]) == 0
    assert "40 to train, 10 to test, 28x28 pixels" in capsys.readouterr().out
    assert train_mnist.main([*options, str(target), "--quiet"]) == 0
    (target / "t10k-images-idx3-ubyte.gz").write_bytes(files["t10k-images-idx3-ubyte.gz"][:-5])
    assert train_mnist.main([*options, str(target)]) == 2
    assert "truncated or damaged gzip file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--threads", "0"], r"--threads must be in 1\.\.\d+ here, got 0"),
        (["--batch-size", "0"], "--batch-size must be at least 1, got 0"),
        (["--lr", "-1"], r"--lr must be positive, got -1\.0"),
        (["--lr-decay", "nan"], "--lr-decay must be positive, got nan"),
        (["--pool", "sum"], "invalid choice: 'sum'"),
    ],
)
def test_wrong_options(options, message, capsys):
    with pytest.raises(SystemExit, match="2"):
        train_mnist.main(options)
    assert re.search(message, capsys.readouterr().err)


def test_a_diverging_run_says_so(capsys):
    with np.errstate(all="ignore"):
        assert train_mnist.main([*SMALL, "--epochs", "5", "--lr", "1e30", "--quiet"]) == 2
    assert re.search(r"the loss is (nan|inf) in epoch \d: try a smaller --lr", capsys.readouterr().err)


def test_zero_epochs_only_tests(capsys):
    assert train_mnist.main([*SMALL, "--epochs", "0", "--quiet"]) == 0
    assert "after 0 epochs, 0.0 s of training, " in capsys.readouterr().out


@pytest.mark.parametrize("pool", ["max", "strided"])
def test_pictures(tmp_path, pool, capsys):
    from matplotlib.image import imread

    folder = tmp_path / "pictures"
    options = ["--subset", "100", "--epochs", "2", "--no-compare", "--pool", pool]
    assert train_mnist.main([*options, "--plots", str(folder)]) == 0
    names = ["confusion", "curves", "feature_maps", "gradient", "misclassified"]
    assert sorted(path.stem for path in folder.iterdir()) == names
    out = capsys.readouterr().out
    for name in names:
        path = folder / f"{name}.png"
        assert f"picture:  {path}" in out
        image = imread(path)
        assert min(image.shape[:2]) > 150
        assert image.std() > 0.02  # something is drawn


def test_pictures_without_mistakes_or_training(tmp_path):
    digits = data.load_bundled()
    network = train_mnist.build("max", "gap", (8, 8), np.random.default_rng(0))
    logits = np.eye(10, dtype=np.float32)[digits.test_labels]
    assert len(plots.save_all(tmp_path, network, digits, logits, [], [])) == 5


def test_gradient_picture_shows_each_pool_its_own_routing():
    """The sums over the windows are the gradient at the pool's output, for both ways."""
    network = train_mnist.build("avg", "dense", (8, 8), np.random.default_rng(0))
    digits = data.load_bundled()
    figure = plots.gradient(network, digits.test_images[:1], int(digits.test_labels[0]))
    upstream, by_max, by_average = (ax.images[0].get_array() for ax in figure.axes[1:4])
    assert np.any(upstream)
    for routed in (by_max, by_average):
        np.testing.assert_allclose(routed.reshape(4, 2, 4, 2).sum((1, 3)), upstream, rtol=1e-5, atol=1e-7)
    assert np.count_nonzero(by_max) <= 16
    np.testing.assert_array_equal(by_average, np.kron(upstream / 4, np.ones((2, 2))))
