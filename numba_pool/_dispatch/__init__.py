"""The way of a call: arrays in, `Windows` (what is asked), a `Call` (what is run, and kept), arrays out."""
