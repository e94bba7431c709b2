"""Blocks that do not overlap: coarsening of any axes of any array, and pyramids of it."""

from .._bindings import signature
from .._dispatch.refused import IN_PYTHON, NotCompiled
from .coarsening import coarsen
from .pyramids import pyramid, pyramid_block, pyramid_regions

__all__ = ["coarsen", "pyramid", "pyramid_block", "pyramid_regions"]

for _name in __all__:
    globals()[_name].__signature__ = signature(globals()[_name], ("unknown",))  # without types, as help() shows it
    globals()[_name]._numba_type_ = NotCompiled(_name, IN_PYTHON)
