"""`hedgerow simulate`: a route of the user's own, by the engine that serves, against simulated targets in trouble."""
