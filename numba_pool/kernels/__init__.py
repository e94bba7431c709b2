"""Every jitted function of the package. Kernels take flat arrays in memory order and a geometry array; they allocate
nothing of the size of a plane and check nothing but indices."""
