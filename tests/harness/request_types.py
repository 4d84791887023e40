"""Hold a request to the types of the vendor's own SDK: every field at every depth, its kind of value, its words.

The SDKs declare requests as TypedDicts, which nothing enforces. Here each becomes a check. A union of them is decided
by `type` and `role`, as the APIs do, so that a mistake is told where it is and not as "no variant fits".
"""

import collections.abc
import types
import typing
from collections.abc import Callable
from functools import cache
from typing import Any, Literal, TypeAlias

import typing_extensions
from anthropic.types.beta.message_create_params import MessageCreateParamsBase as BetaMessagesRequest
from anthropic.types.message_create_params import MessageCreateParamsBase as MessagesRequest
from openai.types.chat.completion_create_params import CompletionCreateParamsBase as ChatRequest
from openai.types.responses.response_create_params import ResponseCreateParamsBase as ResponsesRequest

from tests.harness.wire import Json, Protocol


class Refused(Exception):
    """A request that the API answers with 400; `where` is the path of the mistake."""

    def __init__(self, where: str, message: str) -> None:
        super().__init__(f"{where}: {message}")
        self.where = where


def need(holds: bool, where: str, message: str) -> None:
    if not holds:
        raise Refused(where, message)


Check: TypeAlias = Callable[[Json, str], None]  # of a value at a path; raises Refused

# What the APIs take though no type names it, by type: the types of replies are wider than those of requests, clients
# send them back, and the newest anthropic SDK has no sampling any more.
ALSO_TAKEN: dict[str, dict[str, object]] = {
    "CompletionCreateParamsBase": {"stream": bool},
    # Codex sends client_metadata and search_content_types, and their vendor takes them.
    "ResponseCreateParamsBase": {"stream": bool, "client_metadata": dict[str, str]},
    "MessageCreateParamsBase": {"stream": bool, "temperature": float, "top_p": float, "top_k": int},
    # reasoning_content belongs to other vendors
    "ChatCompletionAssistantMessageParam": {"annotations": list[object] | None, "reasoning_content": str},
    "EasyInputMessageParam": {"id": str, "status": str},
    "ResponseReasoningItemParam": {"content": list[object] | None},
    "WebSearchToolParam": {"search_content_types": list[str]},
}
# Needed by a type but not by its API.
NOT_NEEDED: dict[str, frozenset[str]] = {
    "FunctionToolParam": frozenset({"parameters", "strict"}),
    "ResponseReasoningItemParam": frozenset({"id"}),
    "ResponseOutputMessageParam": frozenset({"id", "status"}),
    "ResponseOutputTextParam": frozenset({"annotations"}),
}


def check_types(protocol: Protocol, body: Json, *, beta: bool = False, also: frozenset[str] = frozenset()) -> None:
    """Raises Refused at the first mistake. `also` are fields of the whole request that the backend takes beside."""
    root = BetaMessagesRequest if beta and protocol == "messages" else ROOTS[protocol]
    known = {name: value for name, value in body.items() if name not in also} if isinstance(body, dict) else body
    check_of(root)(known, "")


ROOTS: dict[Protocol, type] = {"chat": ChatRequest, "responses": ResponsesRequest, "messages": MessagesRequest}


@cache
def check_of(hint: Any) -> Check:
    """The check that a type hint stands for."""
    hint = _bare(hint)
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        return _union(tuple(typing.get_args(hint)))
    if origin is Literal:
        return _words(typing.get_args(hint))
    if typing_extensions.is_typeddict(hint):
        return _fields_check(hint)
    if origin is dict or origin is collections.abc.Mapping or hint is dict:
        return _mapping(typing.get_args(hint))
    if isinstance(origin, type) and issubclass(origin, collections.abc.Iterable):
        return _list(typing.get_args(hint)[0])
    if hint in (object, Any):
        return lambda value, where: None
    # What has no JSON form, such as an open file or a reply object, fits nothing that is sent.
    return _plain(PLAIN.get(hint, ()), getattr(hint, "__name__", str(hint)))


PLAIN: dict[object, tuple[type, ...]] = {
    str: (str,),
    int: (int,),
    float: (int, float),
    bool: (bool,),
    type(None): (type(None),),
}


def _bare(hint: Any) -> Any:
    """The hint without what only says how a field is spelled or that it is needed."""
    while True:
        if typing.get_origin(hint) in WRAPPERS:
            hint = typing.get_args(hint)[0]
        elif isinstance(hint, typing_extensions.TypeAliasType):
            hint = hint.__value__
        else:
            return hint


WRAPPERS = (
    typing.Annotated,
    typing.Required,
    typing.NotRequired,
    typing_extensions.Required,
    typing_extensions.NotRequired,
)


def _plain(kinds: tuple[type, ...], name: str) -> Check:
    def check(value: Json, where: str) -> None:
        if type(value) not in kinds:
            raise Refused(where, f"{value!r:.60} where {name} is wanted")

    return check


def _words(words: tuple[object, ...]) -> Check:
    def check(value: Json, where: str) -> None:
        if not any(value == word and type(value) is type(word) for word in words):
            raise Refused(where, f"{value!r:.60} is none of {words}")

    return check


def _list(element: Any) -> Check:
    def check(value: Json, where: str) -> None:
        if type(value) is not list:
            raise Refused(where, f"{value!r:.60} where a list is wanted")
        each = check_of(element)
        for index, entry in enumerate(value):
            each(entry, f"{where}[{index}]")

    return check


def _mapping(hints: tuple[Any, ...]) -> Check:
    each = check_of(hints[1] if hints else object)

    def check(value: Json, where: str) -> None:
        if type(value) is not dict:
            raise Refused(where, f"{value!r:.60} where an object is wanted")
        for name, entry in value.items():
            each(entry, f"{where}.{name}")

    return check


@cache
def fields_of(struct: Any) -> tuple[dict[str, Any], frozenset[str]]:
    """(fields by wire name, those that are needed) of a TypedDict."""
    fields: dict[str, Any] = {}
    needed: set[str] = set()
    hints: dict[str, Any] = typing_extensions.get_type_hints(struct, include_extras=True)
    for name, hint in hints.items():
        needs = name in struct.__required_keys__
        alias = name
        while typing.get_origin(hint) in WRAPPERS:
            origin = typing.get_origin(hint)
            if origin is typing.Annotated:
                alias = next((mark.alias for mark in hint.__metadata__ if getattr(mark, "alias", None)), alias)
            else:
                needs = origin in (typing.Required, typing_extensions.Required)
            hint = typing.get_args(hint)[0]
        fields[alias] = hint
        if needs:
            needed.add(alias)
    fields |= ALSO_TAKEN.get(struct.__name__, {})
    return fields, frozenset(needed - NOT_NEEDED.get(struct.__name__, frozenset()))


def _fields_check(struct: Any) -> Check:
    fields, needed = fields_of(struct)
    # Only schemas say that they may hold more than they name.
    is_open = (getattr(struct, "__pydantic_config__", None) or {}).get("extra") == "allow"

    def check(value: Json, where: str) -> None:
        if type(value) is not dict:
            raise Refused(where, f"{value!r:.60} where an object is wanted")
        for name in needed:
            if name not in value:
                raise Refused(f"{where}.{name}".lstrip("."), "is required")
        for name, entry in value.items():
            at = f"{where}.{name}".lstrip(".")
            if name in fields:
                check_of(fields[name])(entry, at)
            elif not is_open:
                raise Refused(at, "unknown field")

    return check


def _union(variants: tuple[Any, ...]) -> Check:
    flat = tuple(arm for variant in variants for arm in arms_of(variant))
    structs = tuple(arm for arm in flat if typing_extensions.is_typeddict(arm))
    others = tuple(check_of(arm) for arm in flat if not typing_extensions.is_typeddict(arm))

    def check(value: Json, where: str) -> None:
        fitting = [check_of(struct) for struct in structs if type(value) is dict and _is_tagged(struct, value)]
        furthest: Refused | None = None
        for attempt in (*fitting, *others):
            try:
                return attempt(value, where)
            except Refused as refused:
                if furthest is None or len(refused.where) > len(furthest.where):
                    furthest = refused
        raise furthest or Refused(where, f"{_tag(value)} is known to no variant")

    return check


def arms_of(hint: Any) -> tuple[Any, ...]:
    hint = _bare(hint)
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return tuple(arm for variant in typing.get_args(hint) for arm in arms_of(variant))
    return (hint,)


def _tag(value: Json) -> str:
    return f"{value.get('type')!r} from {value.get('role')!r}" if type(value) is dict else f"{value!r:.60}"


@cache
def _tags_of(struct: Any) -> tuple[tuple[str, tuple[object, ...]], ...]:
    fields, _ = fields_of(struct)
    return tuple(
        (name, tuple(word for arm in arms_of(fields[name]) for word in typing.get_args(arm)))
        for name in ("type", "role")
        if name in fields and all(typing.get_origin(arm) is Literal for arm in arms_of(fields[name]))
    )


def _is_tagged(struct: Any, value: Json) -> bool:
    """Whether `type` and `role` of the value are words that the TypedDict knows."""
    return all(value[name] in words for name, words in _tags_of(struct) if name in value)
