"""The way of a call: arrays come in, `Windows` say what is asked, a `Call` says what is run, and is kept; arrays go
out.
"""
