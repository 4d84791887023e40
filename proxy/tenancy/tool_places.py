"""Every tool that a request asks for, wherever it can stand, in any protocol's spelling.

Bodies are passed on as they are where the protocol stays the same, so the vendors' own extras count as well: fields
that no sheet of ours has, but OpenRouter, xAI, Gemini and others act on. What can't be told apart counts as hosted.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from proxy.canonical.errors import Rejected
from proxy.canonical.loss import Path
from proxy.protocols.fields import Wire, is_object
from proxy.tenancy.kinds import kind_of, names_of
from proxy.tenancy.refusals import malformed
from proxy.tenancy.repeats import refuse_doubles

Client = Literal["chat", "responses", "messages", "completions"]


@dataclass(frozen=True, slots=True)
class FoundTool:
    """`names`: all that a rule may call it by. The name of an `mcp` tool is the address of its server, or
    `connector:ID`, `tunnel:ID` or `label:NAME`. `models`: the models that it asks in turn, and where it says so."""

    sort: Literal["function", "hosted", "mcp"]
    names: tuple[str, ...]
    path: Path
    models: tuple[tuple[Path, object], ...] = ()


# Fields of a request that ask for something of the vendor's, with the type of tool that they amount to.
_ASKS: dict[str, str] = {
    "web_search_options": "web_search",  # OpenAI, Perplexity
    "web_search": "web_search",
    "search_parameters": "search_parameters",  # xAI
    "search_settings": "web_search",  # Groq
    "enable_search": "web_search",  # Qwen
    "search_options": "web_search",
    "google_search": "google_search",  # Gemini
    "google_search_retrieval": "google_search",
    "enable_code_interpreter": "code_interpreter",
    "code_execution": "code_execution",
    "data_sources": "data_sources",  # Azure
    "compound_custom": "compound_custom",  # Groq
    "container": "code_execution",  # Messages
}
# The member of an object by which its vendor turns it off; others pass over what they do not know.
_SWITCHES: dict[str, tuple[str, object]] = {"search_parameters": ("mode", "off"), "web_search": ("enable", False)}
_PLUGINS = {"web": "web_search", "file-parser": "file_parser"}  # OpenRouter
_NESTED = ("extra_body", "google", "xai", "openrouter")  # objects in which clients send extras
_SEARCHES = re.compile(r":online(?:$|:)|-search-(?:preview|api)\b")
_TOOL_FIELDS = frozenset({"type", "name", "function", "custom", "definition"})
_REFERENCES = frozenset({"function", "custom", "allowed_tools"})


def find_tools(client: Client, wire: Wire) -> Iterator[FoundTool]:
    """In the order in which they stand. Raises `Rejected` for a tool that can't be read."""
    yield from _asked(wire, ())
    yield from _declared(wire.get("tools"), ("tools",), client)
    yield from _declared(wire.get("functions"), ("functions",), client, bare=True)
    yield from _servers(wire.get("mcp_servers"), ("mcp_servers",))
    yield from _chosen(wire.get("tool_choice"), ("tool_choice",))
    for name in ("input", "items"):
        yield from _in_items(wire.get(name), (name,), client)
    yield from _in_messages(wire.get("messages"), client)


def _asked(wire: Wire, path: Path) -> Iterator[FoundTool]:
    """What fields of the request ask for, and those of the objects in which vendors hide theirs."""
    for name, value in wire.items():
        if name in _ASKS and _is_on(name, value):
            yield FoundTool("hosted", names_of(_ASKS[name]), (*path, name))
            if name == "compound_custom":
                yield from _compound(value, (*path, name))
    for index, plugin in enumerate(_entries(wire.get("plugins"))):
        given = plugin.get("id") if is_object(plugin) else plugin
        kind = given if type(given) is str else "plugin"
        yield FoundTool("hosted", names_of(_PLUGINS.get(kind, kind)), (*path, "plugins", index))
    model = wire.get("model")
    if type(model) is str and _SEARCHES.search(model.casefold()):
        yield FoundTool("hosted", names_of("web_search"), (*path, "model"))
    for name in _NESTED:
        if is_object(inner := wire.get(name)):
            yield from _asked(inner, (*path, name))
            yield from _declared(inner.get("tools"), (*path, name, "tools"), "chat")


def _is_on(name: str, value: object) -> bool:
    if is_object(value) and name in _SWITCHES:
        member, off = _SWITCHES[name]
        return value.get(member) != off
    return value is not None and value is not False and value != []


def _compound(value: object, path: Path) -> Iterator[FoundTool]:
    tools = value.get("tools") if is_object(value) else None
    enabled = tools.get("enabled_tools") if is_object(tools) else None
    for index, name in enumerate(_entries(enabled)):
        yield FoundTool("hosted", names_of(str(name)), (*path, "tools", "enabled_tools", index))


def _entries(value: object) -> list[object]:
    return value if type(value) is list else []


def _declared(tools: object, path: Path, client: Client, *, bare: bool = False) -> Iterator[FoundTool]:
    """The entries of an array of tools. `bare`: they are what a function tool holds."""
    if tools is None:
        return
    if type(tools) is not list:
        raise Rejected(malformed(path, "expected an array."))
    for index, tool in enumerate(tools):
        at = (*path, index)
        declared = _object(tool, at)
        if bare:
            yield FoundTool("function", _texts(declared.get("name")), at)
        else:
            yield from _one(declared, at, client)


def _one(tool: Wire, path: Path, client: Client) -> Iterator[FoundTool]:
    refuse_doubles(tool, path)
    wire_type = tool.get("type")
    if wire_type is not None and type(wire_type) is not str:
        raise Rejected(malformed((*path, "type"), "expected a string."))
    match wire_type:
        case "function" | "custom":
            yield from _function(tool, path)
        case None if client == "messages" or {"function", "custom", "name"} & tool.keys():
            yield from _function(tool, path)
        case None:
            # Gemini's form: `{"google_search": {}}`.
            for name in tool or ("",):
                yield FoundTool("hosted", names_of(name), path)
        case "namespace":
            yield from _members(tool, path, client)
        case "mcp":
            yield FoundTool("hosted", ("mcp",), path)
            yield from _server(tool, path)
        case "builtin_function":  # Moonshot's: `{"function": {"name": "$web_search"}}`
            names = [name for given in _names(tool) for name in names_of(given)]
            yield FoundTool("hosted", (*names, "builtin_function"), path)
        case _:
            yield FoundTool("hosted", _hosted_names(tool, wire_type), path, tuple(_models(tool, path)))


def _members(namespace: Wire, path: Path, client: Client) -> Iterator[FoundTool]:
    """The tools of a group, whose functions also go by `group.name`."""
    path = (*path, "tools")
    for index, member in enumerate(_entries(namespace.get("tools"))):
        if is_object(member) and member.get("type") == "namespace":
            raise Rejected(malformed((*path, index), "a namespace holds no other."))
    group = namespace.get("name")
    for found in _declared(namespace.get("tools"), path, client):
        grouped = (*found.names, *(f"{group}.{name}" for name in found.names))
        yield FoundTool("function", grouped, found.path) if found.sort == "function" else found


def _function(tool: Wire, path: Path) -> Iterator[FoundTool]:
    # Which of several names counts is the server's to say, so each must be allowed.
    for given in dict.fromkeys(_names(tool)) or ("",):
        yield FoundTool("function", (given,) if given else (), path)
    for name in tool.keys() - _TOOL_FIELDS:
        if kind_of(name) is not None:
            yield FoundTool("hosted", names_of(name), (*path, name))


def _names(tool: Wire) -> tuple[str, ...]:
    """All that any server may take for the name."""
    inner = (tool.get("function"), tool.get("custom"))
    return _texts(tool.get("name"), *(one.get("name") for one in inner if is_object(one)))


def _texts(*values: object) -> tuple[str, ...]:
    return tuple(value for value in values if type(value) is str)


def _models(tool: Wire, path: Path) -> Iterator[tuple[Path, object]]:
    """The adviser's of Messages, the painter's of Responses."""
    if tool.get("model") is not None:
        yield (*path, "model"), tool["model"]
    drawing = tool.get("svg")
    if is_object(drawing) and drawing.get("model") is not None:
        yield (*path, "svg", "model"), drawing["model"]


def _hosted_names(tool: Wire, wire_type: str) -> tuple[str, ...]:
    names = names_of(wire_type)
    environment = tool.get("environment")
    where = environment.get("type") if is_object(environment) else None
    if type(where) is str and where.startswith("container"):
        names = (*names, *names_of("code_execution"))
    return names


def _server(tool: Wire, path: Path) -> Iterator[FoundTool]:
    """Where an MCP tool of Responses is: one of three fields, though a server might read another than we do."""
    found = False
    for field, prefix in (("server_url", ""), ("connector_id", "connector:"), ("tunnel_id", "tunnel:")):
        value = tool.get(field)
        if value is not None:
            found = True
            yield FoundTool("mcp", (_named(value, prefix, (*path, field)),), (*path, field))
    if not found:
        yield FoundTool("mcp", (f"label:{tool.get('server_label')}",), path)


def _named(value: object, prefix: str, path: Path) -> str:
    if type(value) is not str:
        raise Rejected(malformed(path, "expected a string."))
    return prefix + value


def _servers(servers: object, path: Path) -> Iterator[FoundTool]:
    """`mcp_servers` of Messages."""
    if servers is None:
        return
    if type(servers) is not list:
        raise Rejected(malformed(path, "expected an array."))
    for index, entry in enumerate(servers):
        at = (*path, index)
        server = _object(entry, at)
        refuse_doubles(server, at)
        yield FoundTool("hosted", ("mcp",), at)
        yield FoundTool("mcp", (_named(server.get("url"), "", (*at, "url")),), (*at, "url"))


def _chosen(choice: object, path: Path) -> Iterator[FoundTool]:
    """A hosted tool that a choice names. A function is no more than a name that was declared."""
    if not is_object(choice):
        return
    wire_type = choice.get("type")
    if wire_type == "allowed_tools":
        inner = choice.get("allowed_tools")
        listed, at = (choice, path) if not is_object(inner) else (inner, (*path, "allowed_tools"))
        for index, entry in enumerate(_entries(listed.get("tools"))):
            yield from _chosen(entry, (*at, "tools", index))
    elif type(wire_type) is str and wire_type not in _REFERENCES and kind_of(wire_type) is not None:
        yield FoundTool("hosted", names_of(wire_type), path)


def _in_items(items: object, path: Path, client: Client) -> Iterator[FoundTool]:
    """Tools that items of Responses bring: `additional_tools`, `tool_search_output`, and what is yet to be invented.
    The list of an MCP server's tools is a record."""
    for index, item in enumerate(_entries(items)):
        if is_object(item) and "tools" in item and item.get("type") != "mcp_list_tools":
            yield from _declared(item["tools"], (*path, index, "tools"), client)


def _in_messages(messages: object, client: Client) -> Iterator[FoundTool]:
    """Definitions by value in tool changes of Messages, those that a compaction has kept among them; and tools that a
    message of Chat brings, which some servers take."""
    for number, message in enumerate(_entries(messages)):
        if not is_object(message):
            continue
        yield from _declared(message.get("tools"), ("messages", number, "tools"), client)
        for place, block in enumerate(_entries(message.get("content"))):
            if is_object(block) and ("tool" in block or "tool_changes" in block):
                at: Path = ("messages", number, "content", place)
                yield from _changed(block, at, client)
                for index, change in enumerate(_entries(block.get("tool_changes"))):
                    if is_object(change):
                        yield from _changed(change, (*at, "tool_changes", index), client)


def _changed(change: Wire, path: Path, client: Client) -> Iterator[FoundTool]:
    tool = change.get("tool")
    if is_object(tool) and tool.get("definition") is not None:
        at = (*path, "tool", "definition")
        yield from _one(_object(tool["definition"], at), at, client)


def _object(value: object, path: Path) -> Wire:
    if not is_object(value):
        raise Rejected(malformed(path, "expected an object."))
    return value
