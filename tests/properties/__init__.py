"""The invariants of mapping.md section 20, as properties over all pairs."""
