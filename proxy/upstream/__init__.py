"""Talks to backends: connections, credentials, headers, the dialects of known servers."""
