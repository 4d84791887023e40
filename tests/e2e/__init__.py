"""Real clients against the proxy as a process of its own, with a strict backend behind it."""
