"""Names that people guess, for the message where the package has none of the kind."""

from collections.abc import Collection

SUBMODULES = ("autograd", "dask", "functional", "jax", "layers", "torch", "xarray")
ELSEWHERE = dict.fromkeys(("accelerate", "decompositions", "report", "restore"), "numba_pool.torch")

SMALLER = dict.fromkeys(("block_reduce", "downsample", "downscale", "downscale_local_mean", "rescale", "resize"),
                        "coarsen") | dict.fromkeys(("pyramid_gaussian", "pyramid_reduce"), "pyramid")
REDUCTIONS = {"average": "mean", "avg": "mean", "area": "mean", "amax": "max", "maximum": "max", "amin": "min",
              "minimum": "min", "nearest": "first", "stride": "first", "subsample": "first", "majority": "mode",
              "add": "sum", "variance": "var", "stddev": "std"}  # as coarsen knows them


def hint(name: str, public: Collection[str]) -> str:
    """What to write in the place of a name; empty where that is not known."""
    if name in SUBMODULES:
        return f": write import numba_pool.{name}"
    if name in ELSEWHERE:
        return f": it is in {ELSEWHERE[name]}"
    if name in SMALLER:
        return f": write numba_pool.{SMALLER[name]}"
    if f"{name}2d" in public:
        return f": write {name}2d, the rank is part of the name"
    if name[-2:] in ("1d", "2d", "3d") and name[:-2] in public:
        return f": write {name[:-2]}, global pooling has no rank in its name"
    return ""
