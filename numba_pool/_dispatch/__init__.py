"""The one way of a call: arrays in, what is asked (`Windows`), what is run (a `Call`, kept for the next), arrays out."""
