"""Whether every client's protocol can be translated to every backend's, tried once before the first request.

A process that can't is not ready: a broken installation shows at its start, not at its first client.
"""

import logging
from itertools import product

from proxy.canonical.errors import Rejected
from proxy.canonical.target import Target
from proxy.translation import pair
from proxy.translation.codecs import BACKENDS, ClientProtocol
from proxy.translation.pair import Options

log = logging.getLogger("dragoman")

_REQUESTS: dict[ClientProtocol, bytes] = {
    "chat": b'{"model":"m","messages":[{"role":"user","content":"?"}]}',
    "responses": b'{"model":"m","input":"?"}',
    "messages": b'{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"?"}]}',
    "completions": b'{"model":"m","prompt":"?"}',
}


def failed_translations() -> list[str]:
    """The pairs that failed, as `client>backend`."""
    failed = []
    for client, backend in product(_REQUESTS, BACKENDS):
        try:
            pair.prepare(pair.peek(client, _REQUESTS[client]), Target(backend, "m"), Options())
        except Rejected:
            log.exception("The self-test of %s>%s failed", client, backend)
            failed.append(f"{client}>{backend}")
    return failed
