"""Explicit vectors inside Numba kernels: sixteen lanes of a number, with masks for borders and short rows.

Numba makes vector code of a plain loop only if LLVM's loop vectoriser agrees. Here the kernel says which lanes do what.
A `Vector` is a Numba type whose data model is an LLVM vector. The functions below are intrinsics on vectors, most of
them one or two instructions with AVX-512. Where registers are narrower, LLVM splits the sixteen lanes over several
(four SSE or NEON registers of float32), so that the same kernel is right everywhere.

Nothing here checks a bound. A masked-off lane is neither read nor written.
"""

from .arithmetic import (
    LARGEST_DIVISOR,
    add,
    average_by_counts,
    divide,
    multiply,
    sums_of_lanes,
    total,
)
from .columns import reduce_down
from .comparison import (
    beats,
    equal,
    finite_or_inf,
    first_among,
    first_bit,
    greater,
    infinite_lanes,
    lesser,
    overtakes,
    select,
)
from .lanes import (
    at_least,
    at_most,
    bits_of,
    both,
    convert,
    indices,
    lanes_inside,
    mask_of,
    splat,
)
from .memory import (
    empty,
    load,
    load_indices,
    load_some,
    memory,
    memory_as,
    misaligned,
    new_array,
    nine_numbers,
    number,
    put,
    store,
    store_some,
    transpose,
    twelve_indices,
)
from .permutation import (
    even_lanes,
    odd_lanes,
    pick,
    rearrange,
    store_pairs,
)
from .rows import (
    columns_from,
    first_maxima,
    first_of_rows,
    passed_on,
)
from .streams import (
    LINE,
    PAGE,
    PAGES,
    by_turns,
    fence,
    prefetch,
    prefetch_near,
    stream,
)
from .taps import (
    MOST_ADDED,
    first_largest_tap,
    largest_tap,
    sums_of_every,
)
from .vector import (
    COUNTED,
    LANES,
    MIRRORED,
    NOWHERE,
    OMITTED,
    ONES,
    PACKS,
    RECORDS,
    SINGLES,
    ZEN,
    ZEROED,
    Pack,
    alignment,
    arithmetic,
    field,
    held_as,
    is_counted,
    is_mirrored,
    own_kind,
    record_kind,
    storage,
    ty_bytes,
    wide_registers,
)
from .windows import pool_run
