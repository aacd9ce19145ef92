"""Every key of the configuration has an effect: one test per key, each on what a built gateway does."""
