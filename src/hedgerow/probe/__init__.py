"""`hedgerow probe`: whether cancelling an attempt at a target stops the upstream, tried out with a few real calls."""
