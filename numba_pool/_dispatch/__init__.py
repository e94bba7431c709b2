"""The one way of a call: arrays in, a plan (kept between calls), a kernel, arrays out."""
