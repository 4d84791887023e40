"""Blocks of tools that the vendor ran, told in no one's wire format, and a search told in blocks (mapping.md 5.5)."""

import hashlib

from proxy.canonical.deed import Deed
from proxy.canonical.jsontext import dumps
from proxy.protocols.fields import Wire, is_object

ID_PREFIX = "srvtoolu_"


def read_deed(call: Wire, result: Wire | None) -> Deed | None:
    """What a call, and its result once there is one, did; None for tools that no other protocol shows."""
    given = call.get("input")
    asked = given if is_object(given) else {}
    if call.get("type") == "mcp_tool_use":
        arguments = dumps(asked).decode()
        deed = Deed("mcp", arguments, server=_text(call, "server_name"), name=_text(call, "name"))
        return deed if result is None else _with_mcp_result(deed, result)
    match call.get("name"):
        case "web_search":
            deed = Deed("web_search", _text(asked, "query"))
            return deed if result is None else _with_sources(deed, result)
        case "code_execution":
            deed = Deed("code", _text(asked, "code"))
        case "bash_code_execution":
            deed = Deed("code", _text(asked, "command"))
        case "text_editor_code_execution":
            deed = Deed("code", f"{_text(asked, 'command')} {_text(asked, 'path')}".strip())
        case _:
            return None
    return deed if result is None else _with_logs(deed, result)


def _text(wire: Wire, name: str) -> str:
    value = wire.get(name)
    return value if type(value) is str else ""


def _with_sources(deed: Deed, result: Wire) -> Deed:
    deed.done = True
    content = result.get("content")
    if isinstance(content, list):
        deed.sources = [_text(found, "url") for found in content if is_object(found) and _text(found, "url")]
    else:
        deed.error = _error(content)
    return deed


def _error(content: object) -> str:
    return (_text(content, "error_code") if is_object(content) else "") or "unavailable"


def _with_logs(deed: Deed, result: Wire) -> Deed:
    deed.done = True
    content = result.get("content")
    told = content if is_object(content) else {}
    if "error_code" in told or not told:
        deed.error = _error(content)
        return deed
    said = [_text(told, name) for name in ("stdout", "stderr", "content")]
    deed.output = "\n".join(text for text in said if text)
    return deed


def _with_mcp_result(deed: Deed, result: Wire) -> Deed:
    deed.done = True
    content = result.get("content")
    texts = [_text(block, "text") for block in content if is_object(block)] if isinstance(content, list) else []
    output = content if isinstance(content, str) else "\n".join(texts)
    if result.get("is_error") is True:
        deed.error = output
    else:
        deed.output = output
    return deed


def show_deed(deed: Deed, call_id: str, envelope: str) -> list[Wire]:
    """A search as a call and its result, whose first page holds the envelope; nothing for other tools."""
    if deed.kind != "web_search":
        return []
    own = f"{ID_PREFIX}{hashlib.sha256(call_id.encode(errors='replace')).hexdigest()[:24]}"
    content: object = [
        {
            "type": "web_search_result",
            "url": url,
            "title": url,
            "encrypted_content": "" if index else envelope,
            "page_age": None,
        }
        for index, url in enumerate(deed.sources)
    ]
    if deed.error is not None:
        content = {"type": "web_search_tool_result_error", "error_code": "unavailable"}
    return [
        {"type": "server_tool_use", "id": own, "name": "web_search", "input": {"query": deed.said}},
        {"type": "web_search_tool_result", "tool_use_id": own, "content": content},
    ]
