"""Parts that neither OpenAI protocol can hold become text, and images leave assistant turns (mapping.md 4.2 to 4.6).

Chat and Responses lack the same things, so the rules stand here once; what only one of them lacks is that
writer's business.
"""

from typing import assert_never

from proxy.canonical.jsontext import dumps
from proxy.canonical.loss import LossReport, Rule
from proxy.canonical.parts import (
    Audio,
    Call,
    Document,
    HostedCall,
    Image,
    Opaque,
    Part,
    Reasoning,
    Refusal,
    Result,
    SearchResult,
    Text,
    Turn,
)
from proxy.canonical.request import Request
from proxy.canonical.target import Target
from proxy.protocols.media_types import decoded_text, is_text, type_of
from proxy.translation.survey import Held

ERROR_MARK = "[tool error] "


def move_assistant_images(request: Request, losses: LossReport) -> None:
    """No protocol takes an image or a file in an assistant turn: it goes to the next user turn, with a label."""
    turns: list[Turn] = []
    carried: list[Part] = []
    for turn in request.turns:
        if turn.role == "assistant":
            turn, images = _split_images(turn, losses)
            turns.append(turn)
            carried += images
            continue
        if carried and turn.role == "user":
            results = [part for part in turn.parts if type(part) is Result]
            others = [part for part in turn.parts if type(part) is not Result]
            turn = Turn("user", [*results, *carried, *others], turn.name, turn.extra, turn.at)
            carried = []
        turns.append(turn)
    if carried:
        turns.append(Turn("user", carried, at=turns[-1].at))
    request.turns = turns


def _split_images(turn: Turn, losses: LossReport) -> tuple[Turn, list[Part]]:
    images: list[Part] = []
    for part in turn.parts:
        if isinstance(part, Image | Document):
            losses.approx(Rule.CONTENT, part.at)
            images += [Text("The assistant's earlier answer held this:"), part]
    if not images:
        return turn, images
    rest: list[Part] = [part for part in turn.parts if not isinstance(part, Image | Document)]
    return Turn(turn.role, rest, turn.name, turn.extra, turn.at), images


_FLAT = frozenset({Text, Call, Result, Reasoning, Refusal, Audio, HostedCall, Opaque})
_FLAT_IN_RESULTS = _FLAT - {Opaque}


def may_need_flattening(held: Held) -> bool:
    """Whether `flatten` may find something to do."""
    return held.errors or not (held.parts <= _FLAT and held.in_results <= _FLAT_IN_RESULTS)


def flatten(request: Request, target: Target, losses: LossReport) -> None:
    """Make every part one that Chat and Responses both know, in place."""
    takes_text_files = target.protocol == "responses" and target.dialect.file_parts
    for turn in request.turns:
        if turn.role != "assistant":
            turn.parts = _flat_parts(turn.parts, losses, text_files=takes_text_files)


def flatten_documents(request: Request, losses: LossReport) -> None:
    """Documents that are text become plain text, for Messages servers that take no files, in place."""
    for turn in request.turns:
        turn.parts = _without_documents(turn.parts, losses)
        for part in turn.parts:
            if type(part) is Result:
                part.parts = _without_documents(part.parts, losses)


def _without_documents(parts: list[Part], losses: LossReport) -> list[Part]:
    flat: list[Part] = []
    for part in parts:
        flat += _flat_document(part, losses, text_files=False) if type(part) is Document else [part]
    return flat


def _flat_parts(parts: list[Part], losses: LossReport, *, text_files: bool) -> list[Part]:
    flat: list[Part] = []
    for part in parts:
        match part:
            case Text() | Call() | Reasoning() | Refusal() | Audio() | HostedCall() | Opaque():
                flat.append(part)
            case Result():
                _flatten_result(part, losses, text_files=text_files)
                flat.append(part)
            case Image():
                if part.transformed:
                    losses.drop(Rule.TRANSFORMATIONS, part.at)
                flat.append(part)
            case Document():
                flat += _flat_document(part, losses, text_files=text_files)
            case SearchResult():
                losses.approx(Rule.SEARCH_RESULT, part.at)
                flat.append(_search_result_text(part, losses))
            case _:
                assert_never(part)
    return flat


def _flatten_result(result: Result, losses: LossReport, *, text_files: bool) -> None:
    parts: list[Part] = []
    for part in _flat_parts(result.parts, losses, text_files=text_files):
        if isinstance(part, Opaque):
            losses.approx(_opaque_rule(part), part.at)
            parts.append(Text(_opaque_text(part)))
        else:
            parts.append(part)
    if result.is_error:
        losses.approx(Rule.IS_ERROR, result.at)
        parts = _marked_as_error(parts)
    result.parts = parts


def _opaque_rule(part: Opaque) -> Rule:
    return Rule.TOOL_REFERENCE if part.type == "tool_reference" else Rule.BROWSER_STATE


def _opaque_text(part: Opaque) -> str:
    """A reference to a tool as the tool's name, anything else as JSON."""
    name = part.native.get("tool_name")
    if part.type == "tool_reference" and isinstance(name, str):
        return name
    return dumps(part.native).decode()


def _marked_as_error(parts: list[Part]) -> list[Part]:
    """An error flag that the model never sees is none, so it becomes the first words of the result."""
    for index, part in enumerate(parts):
        if isinstance(part, Text):
            if part.text.lower().startswith("error"):
                return parts
            marked = Text(ERROR_MARK + part.text, cache=part.cache)
            return [*parts[:index], marked, *parts[index + 1 :]]
    return [Text(ERROR_MARK.strip()), *parts]


def _flat_document(part: Document, losses: LossReport, *, text_files: bool) -> list[Part]:
    """`text_files`: the backend takes files of text that are files already."""
    if part.cite:
        losses.drop(Rule.CITE_REQUEST, part.at)
    source = part.source
    if part.content is not None:
        losses.approx(Rule.TEXT_DOC, part.at)
        return [
            Text(_document_header(part), cache=part.cache),
            *_flat_parts(part.content, losses, text_files=text_files),
        ]
    text = source.data if source is not None and source.kind == "text" else None
    if source is not None and source.kind == "base64" and not text_files and is_text(type_of(part)):
        text = decoded_text(source.data, part.at)
    if text is not None:
        losses.approx(Rule.TEXT_DOC, part.at)
        if part.detail not in (None, "auto"):
            losses.drop(Rule.DETAIL, part.at)
        return [Text(f"{_document_header(part)}\n{text}", cache=part.cache)]
    if part.context:
        losses.approx(Rule.CONTEXT, part.at)
        return [Text(f"Context of the next document: {part.context}"), part]
    return [part]


def _document_header(part: Document) -> str:
    lines = [f"Document: {part.title}" if part.title else "Document:"]
    if part.context:
        lines.append(f"Context: {part.context}")
    return "\n".join(lines)


def _search_result_text(part: SearchResult, losses: LossReport) -> Text:
    """A search result as plain lines."""
    for text in part.content:
        if text.cache is not None:
            losses.drop(text.cache.rule, text.cache.at)
        if text.citations:
            losses.drop(Rule.CITATIONS, part.at)
    body = "\n".join(text.text for text in part.content)
    return Text(f"Source: {part.title} ({part.source})\n{body}", cache=part.cache)
