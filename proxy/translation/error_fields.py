"""What a backend's error calls a field, in the client's words (mapping.md 15.1).

The client never sent the backend's names. A name is only replaced where it can be nothing else: as the error's
`param`, in quotes, or in front of a colon at the beginning. Of a place within a field only the field is named, since
what is in it stands elsewhere there.
"""

import re
from collections.abc import Mapping
from functools import cache

from proxy.canonical.errors import Error
from proxy.translation.codecs import BackendProtocol, ClientProtocol

# One field a line, by protocol; where a protocol has several names for it, the first is what a client is told.
_FIELDS: tuple[Mapping[ClientProtocol, tuple[str, ...]], ...] = (
    {
        "chat": ("max_completion_tokens", "max_tokens"),
        "responses": ("max_output_tokens",),
        "messages": ("max_tokens",),
        "completions": ("max_tokens",),
    },
    {"chat": ("messages",), "responses": ("input",), "messages": ("messages",), "completions": ("prompt",)},
    {"chat": ("messages",), "responses": ("instructions",), "messages": ("system",), "completions": ("prompt",)},
    {"chat": ("stop",), "messages": ("stop_sequences",), "completions": ("stop",)},
    {
        "chat": ("response_format",),
        "responses": ("text.format",),
        "messages": ("output_config.format", "output_format"),
    },
    {
        "chat": ("reasoning_effort", "reasoning.effort"),
        "responses": ("reasoning.effort",),
        "messages": ("output_config.effort", "thinking.budget_tokens"),
    },
    {"chat": ("verbosity",), "responses": ("text.verbosity",)},
    {
        "chat": ("parallel_tool_calls",),
        "responses": ("parallel_tool_calls",),
        "messages": ("tool_choice.disable_parallel_tool_use",),
    },
    {"chat": ("user",), "responses": ("user",), "messages": ("metadata.user_id",), "completions": ("user",)},
    {"chat": ("safety_identifier",), "responses": ("safety_identifier",), "messages": ("metadata.user_id",)},
)
# Quoted, these are as often a role, a stop reason or anything else.
_WORDS = frozenset({"system", "user", "stop"})


def reword(error: Error, backend: BackendProtocol, client: ClientProtocol, limit: str | None) -> None:
    """Rename, in place, the fields in what a backend said. `limit` is what the client called its output limit."""
    if error.reason is not None:
        return  # the proxy's own words are the client's already
    names, name = _names(backend, client, limit)
    field = re.fullmatch(name, error.param) if error.param is not None else None
    if field is not None:
        error.param = names[field[1]]

    def renamed(match: re.Match[str]) -> str:
        quoted = match[1]
        meant = quoted not in _WORDS or (field is not None and quoted == field[1])
        return names[quoted or match[2]] if meant else match[0]

    error.message = re.sub(rf"(?<=['\"`]){name}(?=['\"`])|^{name}(?=: )", renamed, error.message)


def client_name(field: str, backend: BackendProtocol, client: ClientProtocol, limit: str | None) -> str:
    """What the client calls a field of the backend's request; `limit` as above."""
    return _names(backend, client, limit)[0].get(field, field)


@cache
def _names(backend: BackendProtocol, client: ClientProtocol, limit: str | None) -> tuple[dict[str, str], str]:
    """The client's names by the backend's, and what matches one of the latter or a place within."""
    names: dict[str, str] = {}
    for field in _FIELDS:
        known = field.get(client, ())
        for name in field.get(backend, ()) if known else ():
            names.setdefault(name, limit if limit is not None and limit in known else known[0])
    names = {name: shown for name, shown in names.items() if name != shown}
    either = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    return names, rf"({either or '(?!)'})(?:[.\[][\w.\[\]]*)?"
