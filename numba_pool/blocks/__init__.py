"""Blocks that do not overlap: coarsening of any axes of any array, and pyramids of it."""

from .coarsening import coarsen
from .pyramids import pyramid, pyramid_block, pyramid_regions

__all__ = ["coarsen", "pyramid", "pyramid_block", "pyramid_regions"]
