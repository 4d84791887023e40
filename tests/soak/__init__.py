"""A proxy under load for as long as somebody likes: what it holds must not grow."""
