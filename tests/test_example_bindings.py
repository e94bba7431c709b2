"""The examples of the bindings: they run, and learn, where the frameworks are installed."""

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "examples"))


@pytest.mark.parametrize("framework", ["jax", "autograd"])
def test_the_code_in_the_documentation_runs(framework):
    pytest.importorskip(framework)
    page = (ROOT / "docs" / f"{framework}.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert blocks
    exec("\n".join(blocks), {})


def test_jax_layers(capsys):
    pytest.importorskip("jax")
    import jax_layers

    jax_layers.main(["--epochs", "1", "--shape", "32", "8", "8", "16"])  # compares the gradients of both
    assert "epoch 1: test accuracy" in capsys.readouterr().out


def test_autograd_convnet(capsys):
    """autograd's own example, whose pooling windows must tile the input; here they overlap."""
    pytest.importorskip("autograd")
    import autograd_convnet

    assert autograd_convnet.main(["--epochs", "3", "--shape", "2", "3", "8", "8"]) > 0.3  # a tenth is chance
    assert "epoch 3: test accuracy" in capsys.readouterr().out
