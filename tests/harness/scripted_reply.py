"""Turn a case's `upstream_reply` into the bytes of a reply to one request.

A reply may take strings from the request it answers, as a model takes the names of the tools it was offered.
"""

import base64
import gzip
import json
import re
import zlib
from dataclasses import dataclass, field
from itertools import pairwise

from tests.harness.http_wire import Head
from tests.harness.paths import find
from tests.harness.wire import Json, typed_event

# Between two writes, so that they reach the proxy as two; less where there are very many.
PAUSE_S = 0.01
MANY_WRITES = 50

EVENT_END = re.compile(rb"\r\n\r\n|\n\n|\r\r")
FROM_REQUEST = re.compile(r"\{\{(?P<kind>req|req_key):(?P<path>[^{}]+)\}\}")


@dataclass
class Request:
    """A request that the backend received. closed_at: when the proxy left while it was being answered (monotonic)."""

    head: Head
    body: bytes
    closed_at: float | None = None

    @property
    def method(self) -> str:
        return self.head.line.split(" ")[0]

    @property
    def path(self) -> str:
        return self.head.line.split(" ")[1]


@dataclass(frozen=True)
class ScriptedReply:
    """writes: each is flushed by itself. whole: sent with a length. cut: the connection is dropped in the end.

    missing: paths that the reply takes from the request and that are not there.
    """

    status: int
    headers: dict[str, str]
    writes: list[bytes]
    whole: bool = False
    pause_s: float = PAUSE_S
    cut: bool = False
    missing: list[str] = field(default_factory=list)


def json_reply(status: int, body: Json) -> ScriptedReply:
    return ScriptedReply(status, {"content-type": "application/json"}, [json.dumps(body).encode()], whole=True)


def script_reply(wanted: Json, request: Request, template_deltas: Json = None) -> ScriptedReply:
    """The reply that a case wants to this request."""
    template = _Template(request, template_deltas)
    headers = dict(wanted["headers"])
    whole = "json" in wanted or "text" in wanted
    writes = _writes(wanted, template)
    if "encoding" in wanted and _accepts_gzip(request):
        headers["content-encoding"] = wanted["encoding"]
        writes = [gzip.compress(writes[0])] if whole else _gzip_by_write(writes)
    usual_pause = PAUSE_S if len(writes) < MANY_WRITES else PAUSE_S / 10
    return ScriptedReply(
        status=wanted["status"],
        headers=headers,
        writes=writes,
        whole=whole,
        pause_s=wanted["pause_ms"] / 1000 if "pause_ms" in wanted else usual_pause,
        cut="close_after" in wanted,
        missing=template.missing,
    )


def _writes(wanted: Json, template: "_Template") -> list[bytes]:
    if "json" in wanted:
        return [template.fill(json.dumps(wanted["json"], ensure_ascii=False))]
    if "text" in wanted:
        return [wanted["text"].encode()]
    if "sse" in wanted:
        writes = _by_event(template.fill(wanted["sse"]))
    else:
        writes = [base64.b64decode(w["b64"]) if isinstance(w, dict) else template.fill(w) for w in wanted["sse_chunks"]]
    writes = writes[: wanted.get("close_after")]
    if size := wanted.get("split_every"):
        joined = b"".join(writes)
        writes = [joined[at : at + size] for at in range(0, len(joined), size)]
    return writes


def _by_event(stream: bytes) -> list[bytes]:
    edges = [0, *(match.end() for match in EVENT_END.finditer(stream)), len(stream)]
    return [stream[start:end] for start, end in pairwise(edges) if start < end]


def _accepts_gzip(request: Request) -> bool:
    """A request that states no encoding accepts any (RFC 9110, 12.5.3)."""
    accepted = request.head.header("accept-encoding").lower()
    return not accepted or "gzip" in accepted or "*" in accepted


def _gzip_by_write(writes: list[bytes]) -> list[bytes]:
    packer = zlib.compressobj(wbits=zlib.MAX_WBITS | 16)
    packed = [packer.compress(write) + packer.flush(zlib.Z_SYNC_FLUSH) for write in writes]
    return [*packed, packer.flush()]


class _Template:
    """Fills the places of a reply that stand for something in the request."""

    def __init__(self, request: Request, deltas: Json) -> None:
        self._request, self._deltas = request, deltas
        self.missing: list[str] = []

    def fill(self, text: str) -> bytes:
        if self._deltas and "{{json_deltas}}" in text:
            text = text.replace("{{json_deltas}}", self._argument_deltas())
        filled = FROM_REQUEST.sub(lambda match: json.dumps(self._value(match), ensure_ascii=False)[1:-1], text)
        return filled.encode("utf-8", "surrogatepass")

    def _value(self, match: re.Match[str]) -> str:
        values = find(json.loads(self._request.body), match["path"])
        if match["kind"] == "req_key":
            values = [next(iter(value)) for value in values if value]
        if not values or not isinstance(values[0], str):
            self.missing.append(match["path"])
            return "missing"
        return values[0]

    def _argument_deltas(self) -> str:
        """The JSON of an object with one field, escaped to ASCII, as argument deltas of block 0."""
        key = FROM_REQUEST.sub(self._value, self._deltas["key"])
        text = json.dumps({key: self._deltas["value"]})
        size = -(-len(text) // self._deltas["pieces"])
        pieces = [text[at : at + size] for at in range(0, len(text), size)]
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
        return "".join(typed_event({"type": "content_block_delta", "index": 0, "delta": delta}) for delta in deltas)
