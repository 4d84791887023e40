"""`dragoman serve` with other times in its limiter than users get: leases that end soon after their replica was killed,
so that a test need not wait half a minute, and patience with a store on a machine that is busy with tests.
"""

import argparse
import sys
from functools import partial

from proxy import cli
from proxy.server import runtime
from proxy.tenancy.shared import LIFE, SharedLimiter

PATIENCE = 5.0  # seconds


def command(life: float = LIFE) -> tuple[str, ...]:
    """What to start a replica with: the file of its configuration follows."""
    return (sys.executable, "-m", __name__, "--life", str(life))


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--life", type=float)
    parser.add_argument("config")
    given = parser.parse_args()
    runtime.SharedLimiter = partial(SharedLimiter, life=given.life, timeout=PATIENCE)  # type: ignore[misc,assignment]
    return cli.main(["serve", "--config", given.config])


if __name__ == "__main__":
    sys.exit(main())
