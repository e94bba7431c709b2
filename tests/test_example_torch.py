"""examples/compare_torch.py: both sides compute the same, where PyTorch is installed."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))

import compare_torch
import train_mnist


def test_both_sides_agree_and_every_part_is_timed(capsys):
    pytest.importorskip("torch")
    options = ["--threads", "1", "--batch-size", "8", "--rounds", "1", "--steps", "2", "--losses", "10"]
    assert compare_torch.main(options) == 0  # 1 where a loss differs by more than 1e-4
    out = capsys.readouterr().out
    for side in compare_torch.SIDES:
        assert f"\n{side} " in out
    for part in ("conv1+relu forward", "pool1 backward", "linear2 backward", "optimizer step", "sum"):
        line = next(line for line in out.splitlines() if line.startswith(part))
        assert len(line.removeprefix(part).split()) == 3


def test_the_training_script_says_how_long_torch_takes(monkeypatch, capsys):
    pytest.importorskip("torch")
    asked = []
    monkeypatch.setattr(compare_torch, "torch_rate", lambda *given: asked.append(given) or 50.0)
    options = ["--subset", "100", "--batch-size", "32", "--epochs", "1", "--no-plots"]
    assert train_mnist.main(options) == 0
    assert "PyTorch:  2.0 s for as many training steps (50 images/s" in capsys.readouterr().out
    assert asked == [(1, 32, 8)]  # threads, batch, pixels
    assert train_mnist.main([*options, "--no-compare"]) == 0
    assert train_mnist.main([*options, "--head", "gap"]) == 0  # which compare_torch has not
    assert "PyTorch" not in capsys.readouterr().out


def test_images_of_any_size_have_a_rate(monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.setattr(compare_torch, "SIDES", compare_torch.SIDES[:2])  # the last one is the same in other memory
    assert compare_torch.torch_rate(1, 4, 8) > 0


def test_without_torch_it_says_what_is_missing(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "torch", None)
    assert compare_torch.main([]) == 2
    assert "pip install torch" in capsys.readouterr().err


def test_a_side_that_ends_is_reported():
    process = compare_torch.Process("numba_pool", 1, 1)
    with pytest.raises(SystemExit, match="ended"):
        process.ask("nonsense")
    process.close()
