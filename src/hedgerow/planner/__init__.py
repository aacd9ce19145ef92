"""What would hedging buy, on one's own logs? The engine that serves the traffic, run in virtual time."""
