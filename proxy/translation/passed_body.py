"""The body of a request whose backend speaks the client's own protocol: the client's bytes (mapping.md P1).

Decoding and encoding would change numbers, escapes, spaces and keys that stand twice, so a change is made in the text,
where it has to be made.
"""

import json
import re
from collections.abc import Container, Iterator, Mapping

from proxy.canonical.jsontext import dumps, loads, loads_exact
from proxy.canonical.loss import LossReport, Rule
from proxy.canonical.target import Dialect
from proxy.protocols.fields import Wire, as_object, is_object
from proxy.translation.arrange import BILLING_HEADER, without_billing_header
from proxy.translation.envelope import ANY_PREFIX
from proxy.translation.returning import strip_envelopes

_ENVELOPE = re.compile(ANY_PREFIX.encode())
_HIDDEN_ENVELOPE = re.compile(rb"\\u00(?:64|72|67|3\d|2[eE])")  # a letter of a prefix that is spelled as an escape
_EMPTY_INDEX = re.compile(rb'"encrypted_index"\s*:\s*""')
_NEEDLESS_ESCAPE = re.compile(rb"\\(?:/|u00[2-7])")  # of a character that could stand for itself
_SPACE = re.compile(r"[ \t\n\r]*")
_DECODER = json.JSONDecoder()


def without_envelopes(raw: bytes, losses: LossReport, *, as_text: bool = False) -> bytes:
    """A client that has talked to another backend brings envelopes along; no backend knows them.

    `as_text`: see `strip_envelopes`.
    """
    if not (b"drg" in raw and _ENVELOPE.search(raw)) and not _may_hide_one(raw):
        return raw
    wire = as_object(loads_exact(raw), ())
    known = len(losses.losses)
    strip_envelopes(wire, (), losses, as_text=as_text)
    return raw if len(losses.losses) == known else dumps(wire)


def for_messages(raw: bytes, system: object, dialect: Dialect, losses: LossReport) -> bytes:
    """What Messages clients bring that the backend should not get: citations of the proxy's own making, which Anthropic
    would find to be none of its own (mapping.md 4.7), and a line that changes with every request, where only
    Anthropic's own API leaves it out of the prompt (2.1). `system` is the request's.
    """
    billed = dialect.family != "anthropic" and _is_billed(system)
    cited = b"encrypted_index" in raw and _EMPTY_INDEX.search(raw) is not None
    if not billed and not cited:
        return raw
    wire = as_object(loads_exact(raw), ())
    if billed:
        _drop_billing_header(wire)
    if cited:
        _drop_made_citations(wire.get("messages"), losses)
    return dumps(wire)


def _is_billed(system: object) -> bool:
    first = system[0] if isinstance(system, list) and system else system
    text = first.get("text") if is_object(first) else first
    return isinstance(text, str) and text.startswith(BILLING_HEADER)


def _drop_billing_header(wire: Wire) -> None:
    system = wire["system"]
    if isinstance(system, list):
        rest = without_billing_header(str(system[0]["text"]))
        wire["system"] = system[1:] if rest is None else [{**system[0], "text": rest}, *system[1:]]
    else:
        wire["system"] = without_billing_header(str(system))
    if not wire["system"]:
        del wire["system"]


def _drop_made_citations(messages: object, losses: LossReport) -> None:
    for number, message in enumerate(messages if isinstance(messages, list) else ()):
        content = message.get("content") if is_object(message) else None
        for place, block in enumerate(content if isinstance(content, list) else ()):
            cited = block.get("citations") if is_object(block) else None
            if not isinstance(cited, list):
                continue
            kept = [entry for entry in cited if not (is_object(entry) and entry.get("encrypted_index") == "")]
            if len(kept) < len(cited):
                losses.drop(Rule.CITATIONS, ("messages", number, "content", place))
                block["citations"] = kept
            if not kept:
                del block["citations"]


def _may_hide_one(raw: bytes) -> bool:
    return b"\\u00" in raw and _HIDDEN_ENVELOPE.search(raw) is not None  # nearly all bodies are done with at once


def renamed(raw: bytes, old: str, new: str) -> bytes:
    """The body with the model's name replaced where it stands."""
    if old == new:
        return raw
    named = re.compile(rb'("model"\s*:\s*)' + re.escape(dumps(old)))
    if len(named.findall(raw)) == 1:
        changed = named.sub(lambda match: match[1] + dumps(new), raw)
        # The name that was found is another object's, if the request spells its own one differently.
        if _NEEDLESS_ESCAPE.search(raw) is None or _model_of(changed) == new:
            return changed
    return with_members(raw, {"model": new})


def _model_of(raw: bytes) -> object:
    wire = loads(raw)
    return wire.get("model") if is_object(wire) else None


def with_members(raw: bytes, values: Mapping[str, object], known: Container[str] | None = None) -> bytes:
    """The body, a JSON object, with these members: each replaced wherever it stands in the outermost object, since
    servers differ in which of two they read, or put first if it stands nowhere. All else stays byte by byte; only its
    encoding becomes UTF-8. `known`: the keys of the object, if it has been decoded; that saves time."""
    text = _text_of(raw)
    written = {name: dumps(value).decode() for name, value in values.items()}
    missing = {name: value for name, value in written.items() if known is None or name not in known}
    if known is None or len(missing) < len(written):
        text = _replaced(text, written, missing)
    if missing:
        at = _behind_space(text, 0) + 1
        added = ",".join(f"{dumps(name).decode()}:{value}" for name, value in missing.items())
        comma = "" if text[_behind_space(text, at)] == "}" else ","
        text = f"{text[:at]}{added}{comma}{text[at:]}"
    return text.encode("utf-8", "surrogatepass")


def _replaced(text: str, written: Mapping[str, str], missing: dict[str, str]) -> str:
    """With the values of the members that are there; those are taken out of `missing`."""
    pieces: list[str] = []
    done = 0
    for key, start, end in _members(text):
        if type(key) is str and key in written:
            pieces += (text[done:start], written[key])
            done = end
            missing.pop(key, None)
    pieces.append(text[done:])
    return "".join(pieces)


def member_of(raw: bytes, name: str) -> bytes:
    """The value of a member of the outermost object, as it is spelled; the last where it stands twice, which is the one
    that decoders take. Raises `KeyError`."""
    text = _text_of(raw)
    return {key: text[start:end] for key, start, end in _members(text)}[name].encode("utf-8", "surrogatepass")


def _text_of(raw: bytes) -> str:
    return raw.decode(json.detect_encoding(raw), "surrogatepass")


def _members(text: str) -> Iterator[tuple[object, int, int]]:
    """The key of each member of the outermost object, and where its value begins and ends."""
    at = _behind_space(text, 0) + 1
    while text[_behind_space(text, at)] != "}":
        key, at = _DECODER.raw_decode(text, _behind_space(text, at))
        start = _behind_space(text, _behind_space(text, at) + 1)
        _, end = _DECODER.raw_decode(text, start)
        yield key, start, end
        at = _behind_space(text, end)
        if text[at] == ",":
            at += 1


def _behind_space(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match is not None else at
