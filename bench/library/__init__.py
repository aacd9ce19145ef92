"""Hedging in process: hedgerow beside every Python package that does it, in one run on this machine."""
