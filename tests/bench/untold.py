"""`python -m tests.bench.untold serve …`: the proxy without metrics of requests and access records.

There is no such setting; it is what their cost is measured against.
"""

import sys

from proxy import cli
from proxy.server import app
from proxy.server.exchange import Exchange


def tell_nobody(_exchange: Exchange) -> None:
    """In place of `telling.tell`."""


if __name__ == "__main__":
    vars(app)["tell"] = tell_nobody
    sys.exit(cli.main())
