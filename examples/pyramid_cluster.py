"""An OME-Zarr pyramid, made by the workers of dask.distributed
============================================================

A volume that need not fit in memory, and smaller and smaller levels of it, written as an OME-Zarr image:

    python examples/pyramid_cluster.py volume.zarr                      # one made of numbers; two workers here
    python examples/pyramid_cluster.py volume.zarr --labels cells       # labels of it: volume.zarr/labels/cells
    python examples/pyramid_cluster.py volume.zarr --resume             # goes on, after it was interrupted

Of an array of your own, a file of NumPy or an array of Zarr. The first line only says how much there is to do::

    python examples/pyramid_cluster.py mine.zarr --input mine.npy --dry-run
    python examples/pyramid_cluster.py mine.zarr --input mine.npy --axes c y x --scale 1 0.3 0.3 --region 4096
    python examples/pyramid_cluster.py mine.zarr --input found.npy --labels nuclei --scale 0.3 0.3 --region 4096

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
from typing import NamedTuple
from uuid import uuid4

import numpy as np
import ome_image
import zarr
from distributed import Client, get_worker

import numba_pool

SIZE, SCALE = (512, 512, 512), (2.0, 0.5, 0.5)  # of the volume that is made of numbers: voxels, micrometers of each
SAVED = ("input", "size", "axes", "scale", "units", "labels", "reduction", "levels", "chunk", "region", "version")


def opened(path):
    """An array on the disk, which is not loaded: of NumPy, of Zarr, or level 0 of an OME-Zarr image."""
    if path.endswith(".npy"):
        return np.load(path, mmap_mode="r")
    found = zarr.open(path, mode="r")
    if isinstance(found, zarr.Group):
        image = found.attrs.get("ome", found.attrs).get("multiscales")
        if image is None:
            raise ValueError(f"{path} is a group: pass one of its arrays, {sorted(found.array_keys())}")
        found = found[image[0]["datasets"][0]["path"]]
    return found


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


def plan(shape, levels, chunk, edge, space=None):
    """Chunks of all levels, and regions of `edge` elements along each axis of `space`, which are all by default. Upper
    levels have smaller chunks where regions end there.
    """
    if edge % 2**levels or edge % chunk:
        raise ValueError(f"the edge of a region must be a multiple of 2**levels, {2**levels}, and of the chunk, "
                         f"{chunk}, got {edge}")
    space = range(len(shape)) if space is None else space
    edges = [min(chunk, edge >> level) for level in range(levels + 1)]
    units = [dict.fromkeys(space, n) for n in (*edges[1:-1], edge >> levels)]  # of other axes a region has one element
    chunks = [tuple(n if axis in space else 1 for axis in range(len(shape))) for n in edges]
    return chunks, list(numba_pool.pyramid_regions(shape, units, dict.fromkeys(space, 2), levels))


def write(array, target, values):
    """Write whole chunks. To write a part of a chunk is to read it first, and two workers would undo each other's."""
    for at, n, unit in zip(target, array.shape, array.shards or array.chunks):
        if at.start % unit or (at.stop % unit and at.stop != n):
            raise ValueError(f"a region must cover whole chunks of {array.shards or array.chunks}, got {target} of an "
                             f"array of shape {array.shape}")
    array[target] = values


# ---- tasks: what workers do ------------------------------------------------------------------------------------------


def fill(path, region, source):
    """Write a region of level 0; `source` is the path of an array, or whether the volume that is made has labels."""
    part = opened(source)[region.source] if isinstance(source, str) else volume(region.source, source)
    write(zarr.open_array(f"{path}/0", mode="r+"), region.source, part)


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


def group_of(path, labels):
    return path / "labels" / labels if labels else path


def unfinished(path):
    """The folder of marks beside an image, and the options that it was begun with; {} where it was not."""
    marks = path.with_name(f"{path.name}.unfinished")
    options = marks / "options.json"
    saved = json.loads(options.read_text()) if options.exists() else {}
    group = group_of(path, saved.get("labels"))
    if marks.exists() and (ome_image.is_image(group) or not group.exists()):
        shutil.rmtree(marks)  # nothing is left to do, or the image was removed
        return marks, {}
    return marks, saved


class Work(NamedTuple):
    """What is to be done."""

    path: Path
    group: Path  # of the image, or of the labels in it
    source: str | bool  # the path of an array, or whether the volume that is made has labels
    shape: tuple[int, ...]
    dtype: np.dtype
    axes: list[ome_image.Axis]
    reduction: str
    chunks: list[tuple[int, ...]]
    regions: list


def work(options):
    """What the options come to."""
    path = options.path.resolve()  # a worker may have another working directory
    if options.input:
        if options.size:
            raise ValueError("--size is that of --input")
        array = opened(options.input)
        shape, dtype, scale, unit = array.shape, array.dtype.newbyteorder("="), (1.0,) * array.ndim, None
    else:
        shape, dtype, scale, unit = (tuple(options.size or SIZE), np.dtype(np.uint32 if options.labels else np.uint8),
                                     SCALE, "micrometer")
    names = options.axes or ome_image.USUAL[-len(shape):]
    units = [None if each == "none" else each for each in options.units or [unit or "none"] * len(names)]
    axes = ome_image.axes_of(names, options.scale or scale, units)
    if len(axes) != len(shape):
        raise ValueError(f"--axes must name the {len(shape)} axes of the array, of shape {shape}, got {names}")
    reduction = "mode" if options.labels else options.reduction
    if options.labels:
        ome_image.check_labels(path, options.labels, axes, shape, dtype, options.version)
    result = numba_pool.coarsen(np.empty((0,) * len(shape), dtype), 1, reduction).dtype
    if result != dtype:
        raise ValueError(f"levels must have the dtype of level 0, {dtype}, whose {reduction} is of {result}")
    space = [number for number, axis in enumerate(axes) if axis.kind == "space"]
    return Work(path, group_of(path, options.labels), options.input or bool(options.labels), shape, dtype, axes,
                reduction, *plan(shape, options.levels, options.chunk, options.region, space))


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("path", type=Path, help="of the image, such as volume.zarr")
    parser.add_argument("--input", type=lambda path: str(Path(path).resolve()), metavar="PATH",
                        help="level 0: a .npy file, an array of Zarr, or an OME-Zarr image, whose level 0 is taken")
    parser.add_argument("--size", type=int, nargs=3, metavar=(*"ZYX",), help=f"without --input, default: {[*SIZE]}")
    parser.add_argument("--axes", nargs="+", metavar="NAME", help="default: the last of t c z y x")
    parser.add_argument("--scale", type=float, nargs="+", metavar="N", help="of an element along each axis, default: 1")
    parser.add_argument("--units", nargs="+", metavar="UNIT", help="one for each axis, such as micrometer, or none")
    parser.add_argument("--labels", metavar="NAME", help="write labels, by their mode, to PATH/labels/NAME")
    parser.add_argument("--reduction", default="mean", choices=("mean", "median", "max", "min", "first"),
                        help="of an image, default: %(default)s")
    parser.add_argument("--levels", type=int, default=3, metavar="N", help="after level 0, default: %(default)s")
    parser.add_argument("--chunk", type=int, default=64, metavar="N", help="elements an edge, default: %(default)s")
    parser.add_argument("--region", type=int, default=256, metavar="N", help="elements an edge, default: %(default)s")
    parser.add_argument("--version", choices=("0.4", "0.5"), default="0.5", help="of OME-Zarr, default: %(default)s")
    parser.add_argument("--dry-run", action="store_true", help="say how many regions there are, and how large")
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
        value = getattr(options, name)
        if value is not None and np.min(value) < 1:
            parser.error(f"--{name} must be at least 1, got {value}")
    if options.compare and options.scheduler:
        parser.error("--compare starts workers of its own, and takes no --scheduler")
    try:
        return options, parser, work(options)
    except (TypeError, ValueError, OSError) as error:
        parser.error(str(error))


def announce(todo):
    """How much there is to do."""
    largest = max(np.prod([s.stop - s.start for s in region.source]) for region in todo.regions) * todo.dtype.itemsize
    print(f"{' x '.join(map(str, todo.shape))} {todo.dtype}, {np.prod(todo.shape) * todo.dtype.itemsize:,} bytes; "
          f"regions: {len(todo.regions)}, of at most {largest:,} bytes")


def main(arguments=None):
    options, parser, todo = parse(arguments)
    path, group, regions, reduction = todo.path, todo.group, todo.regions, todo.reduction
    marks, saved = unfinished(path)
    if options.dry_run:
        announce(todo)
        return 0
    if options.resume and ome_image.is_image(group):
        print(f"{group} is complete")
        return 0
    if (group.exists() or marks.exists()) and not (options.resume and marks.exists()):
        parser.error(f"{group} exists already" if not marks.exists() else
                     f"{path} exists already; --resume goes on with it")
    try:
        client = connect(options.scheduler, options.workers)
    except (OSError, ValueError) as error:
        raise SystemExit(f"no workers: {error}") from None

    with client:
        if not saved:
            marks.mkdir(exist_ok=True)
            if options.labels:
                ome_image.make_room_for_labels(path, options.version)
            ome_image.create(group, todo.shape, todo.dtype, todo.chunks, options.version, todo.axes)
            put(marks / "options.json", {name: getattr(options, name) for name in SAVED})
        announce(todo)
        run(client, fill, group, regions, marks, todo.source)
        reports, seconds = timed(client, group, regions, marks, todo.dtype, reduction)
        show(reports, seconds, client.nthreads())
    if options.compare:
        compare(group, regions, marks, todo.dtype, reduction, options.workers)
    about = options.version, todo.axes, [(1,) * len(todo.shape), *regions[0].factors], reduction
    if options.labels:
        ome_image.describe_labels(path, options.labels, *about)
    else:
        ome_image.describe(path, *about)
    shutil.rmtree(marks)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
