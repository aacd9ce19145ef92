"""`hedgerow demo`: simulated providers and the gateway as processes, load on both routes, and books that must agree."""
