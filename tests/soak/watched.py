"""The product, which tells on SIGUSR1 how many tasks it has."""

import asyncio
import signal
import sys

from proxy import cli
from proxy.server import lifecycle
from proxy.settings import Loaded

_serve = lifecycle.serve


def _tell() -> None:
    sys.stderr.write(f"\ntasks: {len(asyncio.all_tasks())}\n")
    sys.stderr.flush()


async def _serve_and_tell(loaded: Loaded, *given: object, **named: bool) -> int:
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, _tell)
    return await _serve(loaded, *given, **named)  # type: ignore[arg-type]


if __name__ == "__main__":
    lifecycle.serve = _serve_and_tell  # type: ignore[assignment]
    sys.exit(cli.main())
