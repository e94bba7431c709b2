"""Some of the random cases of fuzz_torch.py, which runs as many as asked for."""

import pytest
import selection

torch = pytest.importorskip("torch", reason="the oracle is PyTorch: pip install -e .[conformance]")
fuzz_torch = pytest.importorskip("fuzz_torch")

torch.set_num_threads(1)
SEED, CASES, BLOCK = 2024, 400 if selection.exhaustive else 40, 20


@pytest.mark.parametrize("start", range(0, CASES, BLOCK))
def test_cases(start):
    """Each mismatch says how to repeat it."""
    outcomes = [fuzz_torch.run_case(SEED, number) for number in range(start, start + BLOCK)]
    assert {result for _, result in outcomes} <= {"compared", "rejected"}
    assert sum(result == "compared" for _, result in outcomes) >= BLOCK // 2


def test_every_family_is_drawn():
    drawn = {fuzz_torch.draw_case(SEED, number)[0] for number in range(400)}
    assert drawn == set(fuzz_torch.FAMILIES)
