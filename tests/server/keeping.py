"""The command `dragoman`, with limits that are written more often than a test can wait for."""

import sys
from functools import partial

from proxy import cli
from proxy.server import runtime
from proxy.server.limits_keeping import LimitsKeeping

WRITE_EVERY = 0.05  # seconds

if __name__ == "__main__":
    runtime.LimitsKeeping = partial(LimitsKeeping, write_every=WRITE_EVERY)  # type: ignore[attr-defined, assignment]
    sys.exit(cli.main())
