"""Sockets that clients and operators come to."""

import errno
from contextlib import AsyncExitStack
from typing import NamedTuple

from aiohttp import web

from proxy.server.connections import Server
from proxy.settings import Address

# After the last stream has been told, seconds for the bytes to leave.
LAST_BYTES = 5.0

_LOOPBACKS = ("127.0.0.1", "::1")
_NO_SUCH_ADDRESS = frozenset({errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT})  # such as ::1 where there is no IPv6


class Listener(NamedTuple):
    """Listening sockets of one port, and what serves their connections."""

    server: Server
    sites: list[web.TCPSite]
    port: int

    async def stop(self) -> None:
        """Listen no more. Connections that wait for a next request are closed, others go on."""
        for site in self.sites:
            await site.stop()
        self.server.pre_shutdown()


async def listen(
    stack: AsyncExitStack, server: Server, address: Address, *, backlog: int, shared: bool = False
) -> Listener:
    """`localhost` is both loopback addresses, as far as this machine has them. `backlog`: connections
    that wait to be accepted. `shared`: other processes listen on the
    same port. Raises OSError when the address is in use or not ours."""
    runner = web.ServerRunner(server, handle_signals=False, shutdown_timeout=LAST_BYTES)
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    hosts = _LOOPBACKS if address.host == "localhost" else (address.host,)
    sites: list[web.TCPSite] = []
    port = address.port
    for host in hosts:
        site = web.TCPSite(runner, host, port, backlog=backlog, reuse_port=shared or None)
        try:
            await site.start()
        except OSError as error:
            if not sites or error.errno not in _NO_SUCH_ADDRESS:
                raise
            continue
        sites.append(site)
        port = runner.addresses[0][1]
    return Listener(server, sites, port)
