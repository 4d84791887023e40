"""The server: endpoints, the exchange, the relay, the life of the process."""

from proxy.server.lifecycle import run

__all__ = ["run"]
