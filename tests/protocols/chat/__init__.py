"""Chat Completions at its boundary: wire objects in, canonical values out, and the reverse."""
