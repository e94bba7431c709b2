"""Blocks that do not overlap: coarsening of any axes of any array, and pyramids of it."""
