"""The wire protocols, one folder each: pure functions and small state machines, no I/O."""
