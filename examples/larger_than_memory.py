"""A volume larger than memory
===========================

The pyramid of a volume of which only a small part is in memory at any time, by the threads of dask:

    python examples/larger_than_memory.py volume.zarr                   # 2 GiB, and as much for a copy
    python examples/larger_than_memory.py volume.zarr --gib 20          # needs 45 GiB of disk

It writes the volume as an OME-Zarr image, not compressed, and copies its files to see how long that takes. Then each
region is read once, and its parts of all levels are written, as in `pyramid_cluster.py`, whose functions these are.
Last it says how much memory that took at most.
"""

import argparse
import shutil
import time
from pathlib import Path

import dask
import numpy as np
import ome_image
import pyramid_cluster
from dask.diagnostics import ProgressBar

import numba_pool

CHUNK, REGION, LEVELS = 128, 256, 4  # voxels along each edge; a voxel is a byte


def serially(task, *args):
    """Run a task on one thread, since dask has threads of its own."""
    with numba_pool.threads(1):
        return task(*args)


def seconds(title, task, path, regions, option, threads):
    """How long a task takes for all regions, with a bar that shows how far it is."""
    print(title)
    tasks = [dask.delayed(serially)(task, path, region, option) for region in regions]
    begin = time.perf_counter()
    with ProgressBar(dt=0.5):
        dask.compute(*tasks, scheduler="threads", num_workers=threads)
    return time.perf_counter() - begin


def copy(path):
    """How long a plain copy of level 0 takes."""
    print("copy")
    begin = time.perf_counter()
    shutil.copytree(path / "0", path / "copy")
    spent = time.perf_counter() - begin
    shutil.rmtree(path / "copy")
    return spent


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("path", type=Path, help="of the image, such as volume.zarr")
    parser.add_argument("--gib", type=float, default=2, metavar="N", help="size of the volume, default: %(default)s")
    parser.add_argument("--region", type=int, default=REGION, metavar="N", help="voxels an edge, default: %(default)s")
    parser.add_argument("--threads", type=int, default=2, metavar="N",
                        help="each has a region in memory, default: %(default)s")
    options = parser.parse_args(arguments)
    for name in ("gib", "region", "threads"):
        if not getattr(options, name) > 0:
            parser.error(f"--{name} must be positive, got {getattr(options, name)}")
    path = options.path.resolve()
    if path.exists():
        parser.error(f"{path} exists already")

    chunk = min(CHUNK, options.region)
    shape = 3 * (chunk * max(1, round((options.gib * 2**30) ** (1 / 3) / chunk)),)
    try:
        chunks, regions = pyramid_cluster.plan(shape, LEVELS, chunk, options.region)
    except ValueError as error:
        parser.error(f"--region: {error}")
    axes = ome_image.axes_of("zyx", pyramid_cluster.SCALE, ["micrometer"] * 3)
    ome_image.create(path, shape, np.uint8, chunks, "0.5", axes, compressors=None)
    pyramid_cluster.warm(regions[0], np.uint8, "mean")
    before = pyramid_cluster.peak_memory()
    spent = {"volume": seconds("volume", pyramid_cluster.fill, path, regions, False, options.threads),
             "copy": copy(path),
             "pyramid": seconds("pyramid", pyramid_cluster.coarsen, path, regions, "mean", options.threads)}
    ome_image.describe(path, "0.5", axes, [(1, 1, 1), *regions[0].factors], "mean")

    size, peak = np.prod(shape), pyramid_cluster.peak_memory()
    print(f"{' x '.join(map(str, shape))} bytes, regions: {len(regions)}, threads: {options.threads}")
    for name, of in {"volume": "written", "copy": "of its files", "pyramid": f"{LEVELS} levels"}.items():
        print(f"{name}, {of}: {spent[name]:.1f} s, {size / spent[name] / 1e6:,.0f} MB/s")
    print(f"peak memory: {peak / 2**20:,.0f} MiB, of which {before / 2**20:,.0f} before it began; the volume is "
          f"{size / peak:.1f} times as large")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
