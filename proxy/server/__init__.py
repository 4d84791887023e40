"""The aiohttp application: endpoints, exchanges, streams, lifecycle."""
