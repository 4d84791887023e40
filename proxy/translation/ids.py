"""Call ids that each side accepts, without a table between requests (mapping.md 3.2).

The encoder is a pure, injective function of the id, so a call and its result meet again on any replica and in any later
turn; nothing random, nothing remembered beyond one request.
"""

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass, field

from proxy.canonical.target import Target

ESCAPED = "drgx_"
HASHED = "drgh_"
PLACED = "drgp_"
_RESERVED = (ESCAPED, HASHED)

_SAFE = re.compile(r"[A-Za-z0-9_-]+")
_PLAIN = re.compile(r"(?!drg[xh]_)[A-Za-z0-9_-]+")  # safe, and not one of those that are made here
_UNSAFE_BYTE = re.compile(rb"[^A-Za-z0-9-]")
_ESCAPE = re.compile(r"_([0-9a-f]{2})")
_BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

RESPONSES_LIMIT = 64
MESSAGES_LIMIT = 64
_OPENAI = frozenset({"openai", "azure", "codex"})


@dataclass(frozen=True, slots=True)
class IdRule:
    """What a side accepts: at most `limit` characters (None: any number), of the safe set or any."""

    limit: int | None
    any_character: bool = False


CLIENT_RULES = {
    "chat": IdRule(None, any_character=True),
    "completions": IdRule(None, any_character=True),
    "responses": IdRule(RESPONSES_LIMIT, any_character=True),
    "messages": IdRule(MESSAGES_LIMIT),
}


def backend_rule(target: Target) -> IdRule:
    """What the backend accepts in a request. OpenAI mints only safe ids; other servers of its protocols any text, and
    want their own back.
    """
    if target.protocol == "messages":
        return CLIENT_RULES["messages"]
    limit = target.dialect.call_id_limit if target.protocol == "chat" else RESPONSES_LIMIT
    return IdRule(limit, any_character=target.dialect.family not in _OPENAI)


def encode(call_id: str, rule: IdRule) -> str:
    """The id as `rule` allows it: itself, escaped (reversible), or hashed (one way)."""
    if rule.limit is None or len(call_id) <= rule.limit:
        if _PLAIN.fullmatch(call_id) is not None:
            return call_id
        if rule.any_character and call_id and not call_id.startswith(_RESERVED):
            return call_id
    escaped = ESCAPED + _UNSAFE_BYTE.sub(
        lambda match: b"_%02x" % match[0][0], call_id.encode("utf-8", "replace")
    ).decode("ascii")
    if rule.limit is None or len(escaped) <= rule.limit:
        return escaped
    return HASHED + hashlib.sha256(call_id.encode("utf-8", "replace")).hexdigest()[:32]


def decode(call_id: str) -> str:
    """The id that `encode` escaped; any other id as it is."""
    if not call_id.startswith(ESCAPED):
        return call_id
    raw = _ESCAPE.sub(lambda match: chr(int(match[1], 16)), call_id[len(ESCAPED) :])
    try:
        decoded = raw.encode("latin-1").decode("utf-8")
    except UnicodeError:
        return call_id
    # A client could send an escape that the encoder never writes; only what it writes is undone, or two ids were one.
    needed = _SAFE.fullmatch(decoded) is None or decoded.startswith(_RESERVED)
    return decoded if needed and encode_escaped(decoded) == call_id else call_id


def encode_escaped(call_id: str) -> str:
    """The escaped form, whatever the length."""
    return ESCAPED + _UNSAFE_BYTE.sub(lambda match: b"_%02x" % match[0][0], call_id.encode("utf-8", "replace")).decode(
        "ascii"
    )


def base62(seed: str, length: int) -> str:
    """`length` base-62 digits of SHA-256 of `seed`."""
    number = int.from_bytes(hashlib.sha256(seed.encode("utf-8", "replace")).digest())
    digits = []
    for _ in range(length):
        number, digit = divmod(number, 62)
        digits.append(_BASE62[digit])
    return "".join(digits)


def placed(turn: int, call: int) -> str:
    """The id of a call that has none, from its place in the conversation."""
    return f"{PLACED}{turn}_{call}"


def mint(response_id: str, index: int) -> str:
    """An id for a call that its backend gave none of its own: of the response's id and the call's place in it."""
    return "call_" + base62(f"{response_id}\n{index}", 24)


def minting(request_id: str) -> Callable[[str, int], str]:
    """`mint`, with the request's id for a response that has none."""
    return lambda response_id, index: mint(response_id or request_id, index)


def for_client(client: str) -> Callable[[str], str]:
    """Re-spells an id of the backend for a client of that protocol."""
    rule = CLIENT_RULES[client]
    return lambda call_id: encode(call_id, rule)


@dataclass(slots=True)
class BackendIds:
    """Spells one request's call ids for the backend.

    `spelled` holds those of the conversation, by what the client calls them.
    """

    target: Target
    spelled: dict[str, str] = field(default_factory=dict)
    _taken: set[str] = field(default_factory=set)
    _rule: IdRule = field(init=False)

    def __post_init__(self) -> None:
        self._rule = backend_rule(self.target)

    def spell(self, call_id: str) -> str:
        """The backend's spelling of a client's id; the same id always gives the same spelling."""
        known = self.spelled.get(call_id)
        if known is not None:
            return known
        native = decode(call_id)
        spelled = self._fitting(native)
        repeat = 2
        while spelled in self._taken:  # a client may have an id and what looks like our escape of it
            spelled = self._fitting(f"{native}-{repeat}")
            repeat += 1
        self.spelled[call_id] = spelled
        self._taken.add(spelled)
        return spelled

    def _fitting(self, native: str) -> str:
        return self._nine_characters(native) if self.target.dialect.call_id_mistral else encode(native, self._rule)

    def _nine_characters(self, call_id: str) -> str:
        """Mistral wants exactly nine letters or digits."""
        if len(call_id) == 9 and call_id.isalnum() and call_id.isascii():
            return call_id
        spelled = base62(call_id, 9)
        counter = 0
        while spelled in self._taken:
            counter += 1
            spelled = base62(f"{call_id}\n{counter}", 9)
        return spelled
