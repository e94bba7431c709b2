"""Random cases against PyTorch: ``python tests/fuzz_torch.py --cases 50000 --seed 0``.

Every case is drawn from (seed, number) alone, so that a mismatch can be repeated on its own. Where PyTorch knows the
operation it is the oracle; where the documented behaviour differs from PyTorch's or goes beyond it (windows without any
valid tap, asymmetric and 'same' padding, dilated averages, Lp, dtypes that PyTorch lacks), the naive `reference` is.
Maxima, indices and their gradients have to agree exactly, float32 sums to 4 ulp of the sum's condition (the mean of the
absolute values) against float64.
"""

import argparse
import sys
import time

import fuzz_maxima as maxima
import fuzz_sums as sums
import numpy as np
import torch
from fuzz_compare import Mismatch, check_broken, describe
from fuzz_draw import broken, chance, pick

# (draw, check, ranks, relative frequency, whether an argument can be broken)
FAMILIES = {
    "max": (maxima.draw_max, maxima.check_max, (1, 2, 3), 30, True),
    "avg": (sums.draw_avg, sums.check_avg, (1, 2, 3), 24, True),
    "lp": (sums.draw_lp, sums.check_lp, (1, 2, 3), 10, True),
    "adaptive_max": (maxima.draw_adaptive_max, maxima.check_adaptive_max, (1, 2, 3), 9, True),
    "adaptive_avg": (sums.draw_adaptive_avg, sums.check_adaptive_avg, (1, 2, 3), 9, True),
    "fractional": (maxima.draw_fractional, maxima.check_fractional, (2, 3), 6, True),
    "unpool": (maxima.draw_unpool, maxima.check_unpool, (1, 2, 3), 6, False),
    "global_max": (maxima.draw_global_max, maxima.check_global_max, (1, 2, 3), 3, False),
    "global_avg": (sums.draw_global_avg, sums.check_global_avg, (1, 2, 3), 3, False),
}


def draw_case(seed, number):
    """Family, case, whether an argument was broken on purpose, and the generator for what else is to be drawn."""
    rng = np.random.default_rng([seed, number])
    odds = np.array([odds for _, _, _, odds, _ in FAMILIES.values()])
    family = list(FAMILIES)[rng.choice(len(odds), p=odds / odds.sum())]
    draw, _, ranks, _, breakable = FAMILIES[family]
    case = draw(rng, pick(rng, ranks))
    breaks = breakable and chance(rng, 0.08)
    return family, broken(rng, case) if breaks else case, breaks, rng


def run_case(seed, number, families=tuple(FAMILIES)):
    """Draw and check one case; its family and the outcome, or a Mismatch that says how to repeat it."""
    family, case, breaks, rng = draw_case(seed, number)
    if family not in families:
        return family, "left out"
    try:
        return family, check_broken(case) if breaks else FAMILIES[family][1](rng, case)
    except Exception as error:
        what = error if isinstance(error, Mismatch) else describe(error)
        raise Mismatch(f"{what}\n  {case}\n  python tests/fuzz_torch.py --seed {seed} --only {number}") from error


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=50000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--start", type=int, default=0, help="number of the first case")
    parser.add_argument("--only", type=int, help="run this case alone and show where it fails")
    parser.add_argument("--families", nargs="+", choices=FAMILIES, default=list(FAMILIES))
    parser.add_argument("--failures", type=int, default=20, help="stop after so many mismatches")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.only is not None:
        print(*run_case(options.seed, options.only, options.families))
        return 0
    counts: dict[tuple[str, str], int] = {}
    failures, began = 0, time.monotonic()
    for number in range(options.start, options.start + options.cases):
        try:
            key = run_case(options.seed, number, options.families)
        except Mismatch as mismatch:
            failures += 1
            print(f"case {number}: {mismatch}", flush=True)
            if failures == options.failures:
                break
            continue
        counts[key] = counts.get(key, 0) + 1
    for (family, result), n in sorted(counts.items()):
        print(f"{family:14}{result:10}{n:7}")
    print(f"{sum(counts.values())} cases agree, {failures} do not, {time.monotonic() - began:.0f} s")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
