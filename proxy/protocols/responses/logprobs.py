"""Log probabilities of output text and of Chat, whose entries the canonical model has (mapping.md 7.4).

The entries are the same but for `bytes`: deltas here lack them, final parts need them, Chat may have null.
"""

from proxy.protocols.fields import Wire, is_object


def read_logprobs(values: object) -> list[object] | None:
    """Entries in Chat's shape; None when there are none. Never fails."""
    return [_read(value) for value in _objects(values)] or None


def _read(wire: Wire) -> Wire:
    return {
        "token": wire.get("token"),
        "logprob": wire.get("logprob"),
        "bytes": wire.get("bytes"),
        "top_logprobs": [
            {"token": one.get("token"), "logprob": one.get("logprob"), "bytes": one.get("bytes")}
            for one in _objects(wire.get("top_logprobs"))
        ],
    }


def write_logprobs(values: list[object], *, final: bool) -> list[Wire]:
    """Entries for a final part, or for a delta."""
    return [
        {**_write(value, final=final), "top_logprobs": [_write(one, final=final) for one in _tops(value)]}
        for value in _objects(values)
    ]


def _tops(wire: Wire) -> list[Wire]:
    return _objects(wire.get("top_logprobs"))


def _write(wire: Wire, *, final: bool) -> Wire:
    token = wire.get("token")
    text = token if type(token) is str else ""
    written: Wire = {"token": text, "logprob": wire.get("logprob")}
    if final:
        own = wire.get("bytes")
        written["bytes"] = own if type(own) is list else list(text.encode("utf-8", "replace"))
    return written


def _objects(values: object) -> list[Wire]:
    return [value for value in values if is_object(value)] if type(values) is list else []
