"""What makes Zarr arrays an OME-Zarr image, or labels of one
===========================================================

Arrays for all levels, and the metadata of versions 0.4 and 0.5 of the specification. `pyramid_cluster.py` and
`larger_than_memory.py` write such images.

Labels are an image of their own in the group `labels` of another: `image.zarr/labels/cells`. That group lists their
names.
"""

from typing import NamedTuple

import zarr

import numba_pool

KINDS = {"t": "time", "c": "channel"}  # axes of other names are of space
FORMATS = {"0.4": 2, "0.5": 3}  # of Zarr, for each version of OME-Zarr
ORDER = ("time", "channel", "space")
USUAL = ("t", "c", "z", "y", "x")  # the last of them are taken where no names are given


class Axis(NamedTuple):
    name: str
    size: float = 1.0  # of an element of level 0
    unit: str | None = None

    @property
    def kind(self):
        return KINDS.get(self.name, "space")


def axes_of(names, sizes, units):
    """The axes of an image, checked as the specification wants them."""
    if len({len(names), len(sizes), len(units)}) > 1:
        raise ValueError(f"there must be a name, a size and a unit for each axis, got {names}, {sizes}, {units}")
    axes = [Axis(*each) for each in zip(names, sizes, units)]
    kinds = [axis.kind for axis in axes]
    if len(set(names)) < len(names) or kinds != sorted(kinds, key=ORDER.index) or not 2 <= kinds.count("space") <= 3:
        raise ValueError("axes must be t for time and c for channels, where there are such, and then two or three of "
                         f"space, got {names}")
    if not min(sizes) > 0:
        raise ValueError(f"elements must have a size above 0 along each axis, got {sizes}")
    return axes


def create(path, shape, dtype, chunks, version, axes, **options):
    """Empty arrays for all levels: `path/0`, `path/1`, ...; `chunks` are those of each. Space is halved."""
    form = FORMATS[version]
    zarr.create_group(str(path), zarr_format=form, overwrite=True)
    for level, chunk in enumerate(chunks):
        lengths = tuple(-(-n // 2**level) if axis.kind == "space" else n for n, axis in zip(shape, axes))
        zarr.create_array(str(path), name=str(level), shape=lengths, dtype=dtype, chunks=chunk, zarr_format=form,
                          dimension_names=[axis.name for axis in axes] if form == 3 else None, **options,
                          chunk_key_encoding={"name": "default" if form == 3 else "v2", "separator": "/"})


def metadata(name, version, axes, factors, reduction, more=()):
    """What makes a group an OME-Zarr image; `factors` leads from level 0 to each level, level 0 among them.

    The middle of a block of f elements is (f - 1) / 2 elements behind that of its first one, which 'first' takes.
    """
    datasets = []
    for level, each in enumerate(factors):
        shift = [0.0 if reduction == "first" else axis.size * (f - 1) / 2 for axis, f in zip(axes, each)]
        datasets.append({"path": str(level), "coordinateTransformations": [
            {"type": "scale", "scale": [axis.size * f for axis, f in zip(axes, each)]},
            {"type": "translation", "translation": shift}]})
    described = [{"name": axis.name, "type": axis.kind, **({"unit": axis.unit} if axis.unit else {})} for axis in axes]
    image = {"name": name, "axes": described, "datasets": datasets, "type": reduction,
             "metadata": {"method": "numba_pool.pyramid", "version": numba_pool.__version__,
                          "kwargs": {"reduction": reduction}}}
    if version == "0.4":
        return {"multiscales": [{"version": version, **image}], **dict(more)}
    return {"ome": {"version": version, "multiscales": [image], **dict(more)}}


def describe(path, version, axes, factors, reduction):
    """Write the metadata of an image, which is none before."""
    attributes = metadata(path.stem, version, axes, factors, reduction)
    zarr.open_group(str(path), mode="r+").attrs.update(attributes)


def describe_labels(image, name, version, axes, factors, reduction):
    """The same of labels, and add them to the list. They name their image, if there is one."""
    about = {"source": {"image": "../../"}} if is_image(image) else {}
    attributes = metadata(name, version, axes, factors, reduction, {
        "image-label": {**({"version": version} if version == "0.4" else {}), **about}})
    zarr.open_group(str(image / "labels" / name), mode="r+").attrs.update(attributes)
    group = zarr.open_group(str(image / "labels"), mode="r+")
    known = group.attrs.get("ome", group.attrs).get("labels", [])
    listed = {"labels": sorted({*known, name})}
    group.attrs.update(listed if version == "0.4" else {"ome": {"version": version, **listed}})


def check_labels(image, name, axes, shape, dtype, version):
    """That labels may be written into an image, if there is one already."""
    if dtype.kind not in "iu":
        raise ValueError(f"labels must be integers, got {dtype}")
    if "/" in name or name in ("", ".", ".."):
        raise ValueError(f"labels must have the name of a folder, got {name!r}")
    if image.exists() and zarr.open_group(str(image), mode="r").metadata.zarr_format != FORMATS[version]:
        raise ValueError(f"labels must be of the version of their image, which {version} is not")
    if is_image(image):
        group = zarr.open_group(str(image), mode="r")
        (about,) = group.attrs.get("ome", group.attrs)["multiscales"]
        level = group[about["datasets"][0]["path"]]
        lengths = {axis["name"]: n for axis, n in zip(about["axes"], level.shape, strict=True)}
        for axis, n in zip(axes, shape, strict=True):
            if lengths.get(axis.name, n) != n:
                raise ValueError(f"labels must be as long as their image along {axis.name}, {lengths[axis.name]}, "
                                 f"got {n}")


def make_room_for_labels(image, version):
    """The groups around labels, if they are not there."""
    for path in (image, image / "labels"):
        zarr.open_group(str(path), mode="a", zarr_format=FORMATS[version])


def is_image(path):
    """Whether a group has its description, which is written last."""
    return any(file.exists() and "multiscales" in file.read_text() for file in (path / "zarr.json", path / ".zattrs"))
