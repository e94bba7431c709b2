"""An OME-Zarr pyramid, made by the workers of dask.distributed
============================================================

A volume that need not fit in memory, and smaller and smaller levels of it, written as an OME-Zarr image:

    python examples/pyramid_cluster.py volume.zarr                      # two workers on this machine
    python examples/pyramid_cluster.py volume.zarr --resume             # goes on, after it was interrupted
    python examples/pyramid_cluster.py labels.zarr --labels --version 0.4

On several machines that see the same folder, start a scheduler in one shell and workers in others::

    dask scheduler                                                      # prints its address
    dask worker tcp://10.0.0.1:8786 --nworkers 2 --nthreads 1           # on every machine
    python examples/pyramid_cluster.py /shared/volume.zarr --scheduler tcp://10.0.0.1:8786

`numba_pool.pyramid_regions` cuts the volume into regions, and each is a task: it reads its part of level 0 once, makes
its parts of all other levels by `numba_pool.pyramid_block`, and writes them. A region covers whole chunks of every
level. So no two tasks write to one chunk, and a task that is run again writes the same again. Nothing is lost with a
worker that is killed: the scheduler gives its tasks to another one. `--resume` takes the options from the first run.
"""

import argparse
import json
import re
import shutil
import time
from contextlib import nullcontext
from pathlib import Path
from uuid import uuid4

import numpy as np
import zarr
from distributed import Client, get_worker

import numba_pool

AXES, MICROMETERS = ("z", "y", "x"), (2.0, 0.5, 0.5)  # the size of a voxel of level 0
SAVED = ("size", "labels", "levels", "chunk", "region", "version")  # options that an image is resumed with


def volume(source, labels):
    """A part of the volume, made of its coordinates: rings, or numbered cells with walls of 0 between them."""
    z, y, x = np.ogrid[source]
    part = np.empty((z.size, y.size, x.size), np.uint32 if labels else np.uint8)
    for plane, depth in zip(part, z.flat):  # so that no intermediate result is as large as the part
        if labels:
            wall = (depth % 19 < 2) | (y % 23 < 2) | (x % 29 < 2)
            plane[:] = np.where(wall, 0, 1 + (depth // 19 * 1009 + y // 23) * 1009 + x // 29)
        else:
            plane[:] = (depth * depth + y * y + x * x) >> 6 & 255
    return part


def plan(shape, levels, chunk, edge):
    """Chunks of all levels, and regions of `edge` voxels: upper levels have smaller chunks where regions end there."""
    if edge % 2**levels or edge % chunk:
        raise ValueError(f"the edge of a region must be a multiple of 2**levels, {2**levels}, and of the chunk, "
                         f"{chunk}, got {edge}")
    chunks = [min(chunk, edge >> level) for level in range(levels + 1)]
    return chunks, list(numba_pool.pyramid_regions(shape, [*chunks[1:-1], edge >> levels], levels=levels))


def create(path, shape, dtype, chunks, version, **options):
    """Empty arrays for all levels: `path/0`, `path/1`, ..."""
    form = 2 if version == "0.4" else 3
    zarr.create_group(str(path), zarr_format=form, overwrite=True)
    for level, chunk in enumerate(chunks):
        lengths = tuple(-(-n // 2**level) for n in shape)
        zarr.create_array(str(path), name=str(level), shape=lengths, dtype=dtype, chunks=(chunk,) * len(shape),
                          zarr_format=form, dimension_names=AXES if form == 3 else None, **options,
                          chunk_key_encoding={"name": "default" if form == 3 else "v2", "separator": "/"})


def metadata(name, version, factors, reduction):
    """What makes a group an OME-Zarr image; `factors` leads from level 0 to each level, level 0 among them.

    The middle of a block of f voxels is (f - 1) / 2 voxels behind that of its first one, which 'first' takes.
    """
    datasets = []
    for level, each in enumerate(factors):
        shift = [0.0 if reduction == "first" else s * (f - 1) / 2 for s, f in zip(MICROMETERS, each)]
        datasets.append({"path": str(level), "coordinateTransformations": [
            {"type": "scale", "scale": [s * f for s, f in zip(MICROMETERS, each)]},
            {"type": "translation", "translation": shift}]})
    image = {"name": name, "axes": [{"name": axis, "type": "space", "unit": "micrometer"} for axis in AXES],
             "datasets": datasets, "type": reduction,
             "metadata": {"method": "numba_pool.pyramid", "version": numba_pool.__version__,
                          "kwargs": {"reduction": reduction}}}
    if version == "0.4":
        return {"multiscales": [{"version": version, **image}]}
    return {"ome": {"version": version, "multiscales": [image]}}


def write(array, target, values):
    """Write whole chunks. To write a part of a chunk is to read it first, and two workers would undo each other's."""
    for at, n, unit in zip(target, array.shape, array.shards or array.chunks):
        if at.start % unit or (at.stop % unit and at.stop != n):
            raise ValueError(f"a region must cover whole chunks of {array.shards or array.chunks}, got {target} of an "
                             f"array of shape {array.shape}")
    array[target] = values


# ---- tasks: what workers do ------------------------------------------------------------------------------------------


def fill(path, region, labels):
    """Write a region of level 0."""
    write(zarr.open_array(f"{path}/0", mode="r+"), region.source, volume(region.source, labels))


def coarsen(path, region, reduction):
    """Write a region of all other levels, from one read of level 0; returns what that took."""
    clock = [time.perf_counter()]
    block = zarr.open_array(f"{path}/0", mode="r")[region.source]
    clock.append(time.perf_counter())
    levels = numba_pool.pyramid_block(block, region, reduction)
    clock.append(time.perf_counter())
    for number, (target, level) in enumerate(zip(region.targets, levels), 1):
        write(zarr.open_array(f"{path}/{number}", mode="r+"), target, level)
        clock.append(time.perf_counter())
    read, made, *written = np.diff(clock).tolist()
    return {"worker": worker(), "read": read, "made": made, "written": written, "bytes read": block.nbytes,
            "bytes written": [level.nbytes for level in levels], "peak": peak_memory()}


def once(task, marker, *args):
    """Run a task unless it is marked as finished; the mark is the last that is written."""
    if not marker.exists():
        put(marker, task(*args))
    return json.loads(marker.read_text())


def put(file, content):
    """Write a file in one step: it is whole or not there."""
    begun = file.with_name(f".{uuid4().hex}")  # a name that nobody looks for
    begun.write_text(json.dumps(content))
    begun.replace(file)


def warm(region, dtype, reduction):
    """Have a worker compile its kernels, or read them from the disk, before time is measured."""
    numba_pool.pyramid_block(np.zeros([s.stop - s.start for s in region.source], dtype), region, reduction)


def worker():
    try:
        return get_worker().address
    except ValueError:  # this process is none
        return "this process"


def peak_memory():
    """Bytes that this process had in memory at most. On Linux `getrusage` would count its parent's, too."""
    try:
        return 1024 * int(re.search(r"VmHWM:\s*(\d+)", Path("/proc/self/status").read_text())[1])
    except OSError:
        import resource
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


# ---- the run ---------------------------------------------------------------------------------------------------------


def connect(scheduler=None, workers=2):
    """A client of workers that are there, or of new ones on this machine."""
    client = Client(scheduler) if scheduler else Client(n_workers=workers, threads_per_worker=1, dashboard_address=None)
    client.wait_for_workers(1, timeout=60)
    return client


def run(client, task, path, regions, marks, option):
    """Run a task for all regions that are not marked yet; without a client in this process. Returns their reports."""
    marks.mkdir(exist_ok=True)
    calls = [(task, mark, path, region, option) for number, region in enumerate(regions)
             if not (mark := marks / f"{task.__name__}-{number}").exists()]
    if len(calls) < len(regions):
        print(f"{task.__name__}: {len(regions) - len(calls)} of {len(regions)} regions are there")
    if client is None or not calls:
        return [once(*call) for call in calls]
    return client.gather(client.map(once, *zip(*calls), key=task.__name__, pure=False))


def timed(client, path, regions, marks, dtype, reduction):
    """Make all levels; returns the reports and the seconds."""
    if client is None:
        warm(regions[0], dtype, reduction)
    else:
        client.run(warm, regions[0], dtype, reduction)
    begin = time.perf_counter()
    reports = run(client, coarsen, path, regions, marks, reduction)
    return reports, time.perf_counter() - begin


def show(reports, seconds, threads):
    """`threads`: how many each worker has."""
    print(f"level 0: {sum(r['bytes read'] for r in reports) / 1e6:,.1f} MB, read in "
          f"{sum(r['read'] for r in reports):.2f} s")
    print(f"all levels: made in {sum(r['made'] for r in reports):.2f} s")
    for level, (spent, size) in enumerate(zip(zip(*(r["written"] for r in reports)),
                                              zip(*(r["bytes written"] for r in reports))), 1):
        print(f"level {level}: {sum(size) / 1e6:,.1f} MB, written in {sum(spent):.2f} s")
    for name in sorted({r["worker"] for r in reports}):
        own = [r for r in reports if r["worker"] == name]
        busy = sum(r["read"] + r["made"] + sum(r["written"]) for r in own) / seconds / threads.get(name, 1)
        print(f"{name}: {len(own)} regions, busy {busy:.0%} of the time, peak memory "
              f"{max(r['peak'] for r in own) / 2**20:,.0f} MiB")
    print(f"{seconds:.2f} s in all")


def compare(path, regions, marks, dtype, reduction, most):
    """Make the levels again and again: by this process, by one worker, and by `most`."""
    seconds = {}
    for count in sorted({0, 1, most}):
        for mark in marks.glob("coarsen-*"):
            mark.unlink()
        with connect(workers=count) if count else nullcontext() as client, numba_pool.threads(1):
            seconds[count] = timed(client, path, regions, marks, dtype, reduction)[1]
        print(f"speed-up {seconds[0] / seconds[count]:.2f}: {seconds[count]:.2f} s, "
              f"{f'workers: {count}' if count else 'one process without dask, one thread'}")


def unfinished(path):
    """The folder of marks beside an image, and the options that it was begun with; {} where it was not."""
    marks = path.with_name(f"{path.name}.unfinished")
    if marks.exists() and (complete(path) or not path.exists()):
        shutil.rmtree(marks)  # nothing is left to do, or the image was removed
    saved = marks / "options.json"
    return marks, json.loads(saved.read_text()) if saved.exists() else {}


def complete(path):
    """Whether an image has its description, which is written last."""
    return any(file.exists() and "multiscales" in file.read_text() for file in (path / "zarr.json", path / ".zattrs"))


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("path", type=Path, help="of the image, such as volume.zarr")
    parser.add_argument("--size", type=int, nargs=3, default=[512] * 3, metavar=(*"ZYX",), help="default: %(default)s")
    parser.add_argument("--labels", action="store_true", help="cells with numbers, by mode; else an image, by mean")
    parser.add_argument("--levels", type=int, default=3, metavar="N", help="after level 0, default: %(default)s")
    parser.add_argument("--chunk", type=int, default=64, metavar="N", help="voxels an edge, default: %(default)s")
    parser.add_argument("--region", type=int, default=256, metavar="N", help="voxels an edge, default: %(default)s")
    parser.add_argument("--version", choices=("0.4", "0.5"), default="0.5", help="of OME-Zarr, default: %(default)s")
    parser.add_argument("--scheduler", metavar="ADDRESS", help="one that is running, such as tcp://127.0.0.1:8786")
    parser.add_argument("--workers", type=int, default=2, metavar="N", help="without --scheduler, default: %(default)s")
    parser.add_argument("--resume", action="store_true", help="go on with an unfinished image, with its options")
    parser.add_argument("--compare", action="store_true", help="measure one process, one worker, and all --workers")
    options = parser.parse_args(arguments)
    if options.resume:
        saved = unfinished(options.path.resolve())[1]
        options = parser.parse_args(arguments, argparse.Namespace(**saved))
        if any(getattr(options, name) != value for name, value in saved.items()):
            parser.error(f"{options.path} was begun with other options: {saved}")
    for name in ("size", "levels", "chunk", "region", "workers"):
        if np.min(getattr(options, name)) < 1:
            parser.error(f"--{name} must be at least 1, got {getattr(options, name)}")
    if options.compare and options.scheduler:
        parser.error("--compare starts workers of its own, and takes no --scheduler")
    try:
        return options, parser, *plan(tuple(options.size), options.levels, options.chunk, options.region)
    except ValueError as error:
        parser.error(str(error))


def main(arguments=None):
    options, parser, chunks, regions = parse(arguments)
    path = options.path.resolve()  # a worker may have another working directory
    marks, saved = unfinished(path)
    dtype, reduction = (np.uint32, "mode") if options.labels else (np.uint8, "mean")
    if options.resume and complete(path):
        print(f"{path} is complete")
        return 0
    if path.exists() and not (options.resume and marks.exists()):
        parser.error(f"{path} exists already" + ("; --resume goes on with it" if marks.exists() else ""))
    try:
        client = connect(options.scheduler, options.workers)
    except (OSError, ValueError) as error:
        raise SystemExit(f"no workers: {error}") from None

    with client:
        if not saved:
            marks.mkdir(exist_ok=True)
            create(path, options.size, dtype, chunks, options.version)
            put(marks / "options.json", {name: getattr(options, name) for name in SAVED})
        print(f"{' x '.join(map(str, options.size))} {np.dtype(dtype)}, regions: {len(regions)}")
        run(client, fill, path, regions, marks, options.labels)
        reports, seconds = timed(client, path, regions, marks, dtype, reduction)
        show(reports, seconds, client.nthreads())
    if options.compare:
        compare(path, regions, marks, dtype, reduction, options.workers)
    factors = [(1, 1, 1), *regions[0].factors]
    zarr.open_group(str(path), mode="r+").attrs.update(metadata(path.stem, options.version, factors, reduction))
    shutil.rmtree(marks)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
