"""In process: hedging for any async callable, for the clients that the SDKs use, and for sync code."""
