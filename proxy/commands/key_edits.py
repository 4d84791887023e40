"""Changes to the keys of one tenant in the text of a configuration file.

The text is cut and pasted where the YAML reader says that things stand, so all else stays byte for byte: comments,
references to the environment, ways of writing. What comes out is read again, and must mean just what was wanted.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import yaml

from proxy.settings.document import Value, read_yaml

Entry = Mapping[str, str]

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the one in C is faster, and not everywhere
_INDENT = "  "


class NotEditable(Exception):
    """The file says it in a way that is not understood here, such as by an alias: someone has to edit it by hand."""


class _Change(NamedTuple):
    """What stands between two positions is replaced."""

    start: int
    end: int
    text: str


def edit_keys(
    text: str,
    tenant: int,
    *,
    ends: Mapping[int, str] | None = None,
    without: int | None = None,
    new: Entry | None = None,
) -> str:
    """The text with other keys of the tenant that is number `tenant` in it.

    `ends`: new `expires_at` of keys, by their numbers; `without`: the number of a key that goes; `new`: one that comes
    behind the others. Raises NotEditable.
    """
    wanted = _wanted(text, tenant, ends or {}, without, new)
    editor = _Editor(text, tenant)
    for key, moment in (ends or {}).items():
        editor.expire(key, moment)
    if without is not None:
        editor.remove(without)
    if new is not None:
        editor.add(new)
    edited = editor.edited()
    after = read_yaml("", edited)
    if after.mistakes or after.root != wanted:
        raise NotEditable
    return edited


def _wanted(
    text: str, tenant: int, ends: Mapping[int, str], without: int | None, new: Entry | None
) -> dict[str, Value]:
    """What the edited text has to mean."""
    root = read_yaml("", text).root
    tenants = root.get("tenants")
    entry = tenants[tenant] if isinstance(tenants, list) else None
    if not isinstance(entry, dict):
        raise NotEditable
    written = entry.get("keys") or []
    keys: list[Value] = written if isinstance(written, list) else []
    for number, moment in ends.items():
        key = keys[number]
        if isinstance(key, dict):
            key["expires_at"] = moment
    if without is not None:
        del keys[without]
    if new is not None:
        keys.append({**new})
    entry["keys"] = keys
    return root


class _Editor:
    def __init__(self, text: str, tenant: int) -> None:
        self.text = text
        self.newline = "\r\n" if "\r\n" in text else "\n"
        self.changes: list[_Change] = []
        root = yaml.compose(text, Loader=_LOADER)
        tenants = _pair(_mapping(root), "tenants")
        self.tenant = _mapping(_sequence(tenants[1] if tenants else None).value[tenant])
        self.keys = _pair(self.tenant, "keys")

    def edited(self) -> str:
        parts, at = [], 0
        for change in sorted(self.changes, key=lambda change: change.start):
            parts += [self.text[at : change.start], change.text]
            at = change.end
        return "".join([*parts, self.text[at:]])

    def add(self, entry: Entry) -> None:
        if self.keys is None:
            self._add_first(entry)
            return
        key, value = self.keys
        if isinstance(value, yaml.SequenceNode) and value.value:
            if value.flow_style:
                self._insert(_end(value.value[-1]), f", {_flow(entry)}")
            else:
                self._insert_lines(value, _block(entry, value.start_mark.column))
        elif self.tenant.flow_style:
            self._replace(value, f"[{_flow(entry)}]")
        else:
            # An empty list, or nothing at all, behind the colon.
            self.changes.append(_Change(_end(key) + 1, _end(value), ""))
            self._insert_lines(value, _block(entry, self.tenant.start_mark.column + len(_INDENT)))

    def _add_first(self, entry: Entry) -> None:
        if self.tenant.flow_style:
            self._insert(_end(self.tenant.value[-1][1]), f", keys: [{_flow(entry)}]")
            return
        named = _pair(self.tenant, "name") or self.tenant.value[-1]
        column = self.tenant.start_mark.column
        self._insert_lines(named[1], [" " * column + "keys:", *_block(entry, column + len(_INDENT))])

    def expire(self, number: int, moment: str) -> None:
        entry = _mapping(_sequence(self.keys[1] if self.keys else None).value[number])
        if pair := _pair(entry, "expires_at"):
            self._replace(pair[1], moment)
        elif entry.flow_style:
            self._insert(_end(entry.value[-1][1]), f", expires_at: {moment}")
        else:
            self._insert_lines(entry.value[-1][1], [" " * entry.start_mark.column + f"expires_at: {moment}"])

    def remove(self, number: int) -> None:
        if self.keys is None:
            raise NotEditable
        key, keys = self.keys[0], _sequence(self.keys[1])
        held: list[yaml.Node] = keys.value
        if not keys.flow_style:
            start = self.text.rfind("\n", 0, _start(held[number])) + 1
            self.changes.append(_Change(start, self._line_behind(_end(held[number])), ""))
            if len(held) == 1:
                self._insert(_end(key) + 1, " []")
        elif len(held) == 1:
            self._replace(keys, "[]")
        elif number == 0:
            self.changes.append(_Change(_start(held[0]), _start(held[1]), ""))
        else:
            self.changes.append(_Change(_end(held[number - 1]), _end(held[number]), ""))

    def _replace(self, node: yaml.Node, text: str) -> None:
        start, end = _start(node), _end(node)
        self.changes.append(_Change(start, end, text if start < end else f" {text}"))

    def _insert(self, at: int, text: str) -> None:
        self.changes.append(_Change(at, at, text))

    def _insert_lines(self, node: yaml.Node, lines: Sequence[str]) -> None:
        """Put lines behind the last one of a node, and behind a comment on that."""
        at = self._line_behind(_end(node))
        block = self.newline.join(lines)
        unended = at == len(self.text) and not self.text.endswith("\n")
        self._insert(at, self.newline + block if unended else block + self.newline)

    def _line_behind(self, at: int) -> int:
        """Where the line behind `at` begins. A block of text ends there already."""
        if self.text[at - 1 : at] == "\n":
            return at
        newline = self.text.find("\n", at)
        return len(self.text) if newline < 0 else newline + 1


def _mapping(node: yaml.Node | None) -> yaml.MappingNode:
    if not isinstance(node, yaml.MappingNode) or not node.value:
        raise NotEditable
    return node


def _sequence(node: yaml.Node | None) -> yaml.SequenceNode:
    if not isinstance(node, yaml.SequenceNode):
        raise NotEditable
    return node


def _pair(node: yaml.MappingNode, name: str) -> tuple[yaml.Node, yaml.Node] | None:
    return next(((key, value) for key, value in node.value if key.value == name), None)


def _start(node: yaml.Node) -> int:
    return int(node.start_mark.index)


def _end(node: yaml.Node) -> int:
    """Behind a node's last character; a block's own end is somewhere before what follows it."""
    while isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        node = node.value[-1]
        if isinstance(node, tuple):
            node = node[1]
    return int(node.end_mark.index)


def _block(entry: Entry, column: int) -> list[str]:
    first, *rest = (f"{name}: {value}" for name, value in entry.items())
    pad = " " * column
    return [f"{pad}- {first}", *(f"{pad}{_INDENT}{line}" for line in rest)]


def _flow(entry: Entry) -> str:
    return "{" + ", ".join(f"{name}: {value}" for name, value in entry.items()) + "}"
