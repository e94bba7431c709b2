"""examples/torch_speedup.py: the smallest case runs, and says what is missing without torch."""

import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))

import torch_speedup

import numba_pool


def tables(text):
    """Rows of the long and of the short table, as lists of cells, by the lines of a page or an output."""
    rows = [line[1:-1].split("|") for line in text.splitlines() if re.match(r"\| \S+.* \d+x\d+", line)]
    rows = [[cell.strip() for cell in row] for row in rows]
    return [row for row in rows if len(row) == 6], [row for row in rows if len(row) == 5]


def agree(long, short):
    """Whether the short table holds the speed-ups of the long one, with the largest number of threads."""
    found = {f"{name} {batch}": [re.findall(r"[\d.]+", cell.partition("(")[0])[-1] for cell in cells]
             for name, batch, *cells in long}  # fmt: skip
    said = {row[0]: [re.findall(r"[\d.]+", cell)[0] for cell in row[1:]] for row in short}
    return bool(said) and all(found[name] == cells for name, cells in said.items())


def test_a_row_for_every_network_and_a_summary(capsys, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.setattr(torch_speedup, "SHORT", ("LeNet 1x1x28x28",))
    options = ["--models", "lenet", "sppf256", "--seconds", "0", "--smallest", "--threads", "1", "2"]
    assert torch_speedup.main(options) == 0
    captured = capsys.readouterr()
    long, short = tables(captured.out)
    assert [row[:2] for row in long] == [["LeNet", "1x1x28x28"], ["SPPF, 256 channels", "1x256x20x20"]]
    assert all(len(re.findall(r"[\d.]+ / [\d.]+ \(\d+%\)", cell)) == 1 for row in long for cell in row[2:])
    assert [row[0] for row in short] == ["LeNet 1x1x28x28"]
    assert agree(long, short)
    processor = numba_pool.show_config("dicts")["vectors"]["model"]
    assert captured.out.count(f"Float32, eager, {processor}, ") == 2
    assert captured.out.count("threads: 1 / 2, torch ") == 2
    assert "The median of the 16 speed-ups is " in captured.out
    with pytest.raises(SystemExit):
        torch_speedup.main(["--models", "lenet5"])
    assert "no such network: lenet5; there are lenet, " in capsys.readouterr().err


def test_what_is_slower_for_sure_is_named():
    line = torch_speedup.Line("VGG-11", "16x3x32x32", "train", "last", 2, 52.0, 61.0, 0.02, [0.9, 0.9, 1.1])
    unsure, surely = line._replace(ratios=[0.9] * 5), line._replace(ratios=[0.9] * 40 + [1.1])
    assert torch_speedup.bounds([1.0] * 5) == (0.0, float("inf"))
    assert torch_speedup.bounds(list(range(6))) == (0, 5)
    assert torch_speedup.bounds(list(range(100))) == (39, 60)
    assert "a confidence of 95 %: none." in torch_speedup.summary([unsure])
    text = torch_speedup.summary([unsure, surely, line._replace(ratios=[1.2])])
    assert "a confidence of 95 %: VGG-11 16x3x32x32, training, channels last, threads: 2, 0.90." in text
    assert "The median of the 3 speed-ups is 0.90, the least 0.90, the largest 1.20." in text


def test_pages_show_one_run():
    """The README's short table is that of the long one in docs/torch.md, and both say where and when."""
    root = Path(__file__).parents[1]
    readme, page = (root / name for name in ("README.md", "docs/torch.md"))
    (_, short), (long, _) = (tables(path.read_text(encoding="utf-8")) for path in (readme, page))
    assert len(long) > 30
    assert agree(long, short)
    where, = set(re.findall(r"^Float32, eager, .*\.$", readme.read_text(encoding="utf-8"), re.M))
    assert where in page.read_text(encoding="utf-8")


@pytest.mark.usefixtures("small_calls_too")
def test_networks_give_one_answer_accelerated_or_not():
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    for name, shape in (("lenet", (1, 1, 28, 28)), ("sppf256", (1, 256, 8, 8)), ("unet", (1, 1, 32, 32))):
        model, x = torch_speedup.MODELS[name][0]().eval(), torch.randn(shape)
        with torch.no_grad():
            expected = model(x)
            torch.testing.assert_close(torch_speedup.accelerate(model)(x), expected, rtol=1e-4, atol=1e-5)


def test_without_torch_it_says_what_is_missing(monkeypatch, capsys):
    monkeypatch.setattr(torch_speedup, "torch", None)
    assert torch_speedup.main([]) == 2
    assert "pip install '.[torch]' in the clone" in capsys.readouterr().err
