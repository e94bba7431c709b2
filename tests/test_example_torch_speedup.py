"""examples/torch_speedup.py: the smallest case runs, and says what is missing without torch."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))

import torch_speedup


def test_a_line_for_every_mode(capsys):
    pytest.importorskip("torch")
    options = ["--models", "lenet", "--layouts", "plain", "last", "--modes", "train", "infer"]
    assert torch_speedup.main([*options, "--seconds", "0", "--smallest"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| lenet")]
    assert len(lines) == 4
    assert all(float(line.split("|")[-2]) > 0 for line in lines)


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
    assert "numba_pool[torch]" in capsys.readouterr().err
