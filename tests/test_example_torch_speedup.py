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
    rows = [line[1:-1].split("|") for line in text.splitlines() if re.match(r"\| [A-Z]", line)]
    rows = [[cell.strip() for cell in row] for row in rows]
    return [row for row in rows if len(row) == 10], [row for row in rows if len(row) == 5]


def agree(long, short):
    """Whether the short table holds the speed-ups and times of the long one."""
    found = {}
    for name, batch, _, _, _, before, after, _, _, ratio in long:
        found.setdefault(f"{name} {batch}", []).append([ratio, before, after])
    said = {row[0]: [re.findall(r"[\d.]+", cell) for cell in row[1:]] for row in short}
    return bool(found) and said == found


def test_a_line_for_every_layout_and_mode_and_a_summary(capsys):
    pytest.importorskip("torch")
    assert torch_speedup.main(["--models", "lenet", "--seconds", "0", "--smallest", "--runs", "1"]) == 0
    text = capsys.readouterr().out
    long, short = tables(text)
    assert [row[2:4] for row in long] == [
        ["inference", "plain"], ["training", "plain"], ["inference", "last"], ["training", "last"]]
    assert all(float(row[-1]) > 0 for row in long)
    assert len(short) == 1
    assert agree(long, short)
    processor = numba_pool.show_config("dicts")["vectors"]["model"]
    assert text.count(f"Float32, eager, {processor}, ") == 2
    assert text.count(f"threads: {long[0][4]}, torch ") == 2
    assert text.count("medians of 1 runs") == 2


def test_a_run_that_differs_from_the_others_does_not_count():
    line = torch_speedup.Line("VGG-11", "16x3x32x32", "train", "last", 2, 52.0, 61.0, 0.02, 0.82)
    others = [line._replace(before=51.0, after=59.0, share=0.01, ratio=0.86),
              line._replace(before=53.0, after=53.5, share=0.03, ratio=0.99)]
    (told,) = torch_speedup.medians([[line], [others[0]], [others[1]]])
    assert told == line._replace(before=52.0, after=59.0, share=0.02, ratio=0.86)


def test_pages_show_one_run():
    """The README's short table is that of the long one in docs/torch.md, and both say where and when."""
    root = Path(__file__).parents[1]
    readme, page = (root / name for name in ("README.md", "docs/torch.md"))
    (_, short), (long, _) = (tables(path.read_text(encoding="utf-8")) for path in (readme, page))
    assert agree(long, short)
    where, = set(re.findall(r"^Float32, eager, .*\.$", readme.read_text(encoding="utf-8"), re.M))
    assert where in page.read_text(encoding="utf-8")


@pytest.mark.usefixtures("small_calls_too")
def test_networks_give_one_answer_accelerated_or_not():
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    for name, shape in (("lenet", (1, 1, 28, 28)), ("googlenet", (1, 3, 64, 64)), ("unet", (1, 1, 32, 32))):
        model, x = torch_speedup.MODELS[name][0]().eval(), torch.randn(shape)
        with torch.no_grad():
            expected = model(x)
            torch.testing.assert_close(torch_speedup.accelerate(model)(x), expected, rtol=1e-4, atol=1e-5)


def test_without_torch_it_says_what_is_missing(monkeypatch, capsys):
    monkeypatch.setattr(torch_speedup, "torch", None)
    assert torch_speedup.main([]) == 2
    assert "pip install '.[torch]' in the clone" in capsys.readouterr().err
