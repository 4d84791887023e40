"""How servers deviate from the vendors' own streams, and what is understood all the same (mapping.md 13.2, 17.1)."""
