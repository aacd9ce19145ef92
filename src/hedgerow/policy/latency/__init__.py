"""How long attempts take, learned from those that ended: windows, distributions, a cell per kind of request.

`cells.LatencyModel` is what a route keeps; it answers with a `distribution.Distribution`. `samples.sample_of` says what
an attempt teaches.
"""
