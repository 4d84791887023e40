"""The benchmark: CPU time of the proxy beside a bare proxy that translates nothing. Run `python -m tests.bench`."""
