"""Where a vendor's models run at another company's, and its requests differ for that (messages.md 4.5).

Google Cloud names the model in the address and the version in the body. It holds for all that such a backend is sent,
also within one protocol.
"""

from proxy.canonical.jsontext import dumps, loads_exact
from proxy.canonical.target import Dialect
from proxy.protocols.fields import as_object


def adapted(body: bytes, dialect: Dialect, *, counting: bool = False) -> bytes:
    """A request as the platform takes it. `counting`: it only asks for its own size, at an address without a model."""
    if not dialect.version_in_body:
        return body
    wire = as_object(loads_exact(body), ())
    if dialect.model_in_path and not counting:
        wire.pop("model", None)
    wire["anthropic_version"] = dialect.version_in_body
    return dumps(wire)
