"""A configuration as plain values that remember where they were written.

PyYAML reads YAML 1.1, in which `loss: off` is a false and `1:30` a number. Scalars are therefore resolved here
by YAML 1.2's core schema, from the nodes, whose marks also give every value its line.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path as FilePath

import yaml

from proxy.settings.letting_go import let_go_of_nodes
from proxy.settings.mistakes import Mistake
from proxy.settings.watching import Stamp

Path = tuple[str | int, ...]
Value = None | bool | int | float | str | list["Value"] | dict[str, "Value"]

# YAML 1.2.2, section 10.3.2, in the order in which they are tried.
_NULL = re.compile(r"(?:~|null|Null|NULL|)")
_BOOL = re.compile(r"(?:true|True|TRUE|false|False|FALSE)")
_INT = re.compile(r"(?:[-+]?[0-9]{1,400}|0o[0-7]+|0x[0-9a-fA-F]+)")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")

_PLAIN_TAGS = frozenset(f"tag:yaml.org,2002:{kind}" for kind in ("str", "map", "seq"))
# Shorter values are no secrets, and blotting them out would only garble a message.
_SHORTEST_SECRET = 4
# What vendors' keys and ours look like: one that stands where something else belongs must not be quoted.
_LIKE_A_KEY = re.compile(
    r"(?<![A-Za-z0-9])(?:(?:sk|pk|rk|gsk|xai|r8|hf|drg)[-_](?=[\w-]*[0-9])[\w-]{20,}|AIza[\w-]{30,})", re.ASCII
)
# Ten thousand tenants with long policies are fewer.
_MOST_VALUES = 1_000_000
_MOST_LEVELS = 50
_MOST_MISTAKES = 1000  # to tell: nobody reads more, and hiding secrets in each takes time
_PLAIN = ""  # the tag of a scalar without quotes and tag


@dataclass(slots=True)
class Document:
    """One configuration while it is being read, and what was found wrong with it so far."""

    file: str
    root: dict[str, Value] = field(default_factory=dict)
    # The file and the line of each value.
    places: dict[Path, tuple[str, int]] = field(default_factory=dict)
    # Entries of lists that several files share: path in the whole → number in the entry's own file.
    numbers: dict[Path, int] = field(default_factory=dict)
    several: bool = False  # files
    # Values that came from elsewhere than the file: path → (place, name there).
    overrides: dict[Path, tuple[str, str]] = field(default_factory=dict)
    # What was filled in from outside; no message may quote it.
    secrets: set[str] = field(default_factory=set)
    # Values that could not be read: whatever else is said about them would only confuse.
    broken: set[Path] = field(default_factory=set)
    mistakes: list[Mistake] = field(default_factory=list)
    # The files that its values name, and what they looked like just before they were read.
    named: dict[FilePath, Stamp] = field(default_factory=dict)

    @property
    def hopeless(self) -> bool:
        """Whether so much is wrong that no more is recorded."""
        return len(self.mistakes) > _MOST_MISTAKES

    def note(self, path: Path, message: str) -> None:
        """Record a mistake at `path`, or at its closest ancestor that was written down."""
        if len(self.mistakes) == _MOST_MISTAKES:
            self.mistakes.append(Mistake(self.file, None, "", f"has more mistakes than these {_MOST_MISTAKES}"))
        if self.hopeless or any(path[:end] in self.broken for end in range(len(path) + 1)):
            return
        for secret in self.secrets:
            if len(secret) >= _SHORTEST_SECRET:
                message = message.replace(secret, "***").replace(repr(secret)[1:-1], "***")
        message = _LIKE_A_KEY.sub("***", message)
        for end in range(len(path), -1, -1):
            if override := self.overrides.get(path[:end]):
                source, name = override
                self.mistakes.append(Mistake(source, None, name, message))
                return
            if place := self.places.get(path[:end]):
                self.mistakes.append(Mistake(*place, self.name_of(path), message))
                return
        self.mistakes.append(Mistake(self.file, None, self.name_of(path), message))

    def note_broken(self, path: Path, message: str) -> None:
        """Record a mistake at a value that can't be read at all."""
        self.note(path, message)
        self.broken.add(path)

    def override(self, path: Path, value: Value, place: str, name: str) -> None:
        """Put `value` at `path`, over what the file said."""
        section = self.root
        for key in path[:-1]:
            inner = section.get(str(key))
            if not isinstance(inner, dict):
                inner = section[str(key)] = {}
            section = inner
        section[str(path[-1])] = value
        self.overrides[path] = (place, name)

    def name_of(self, path: Path) -> str:
        """As its own file counts: `upstreams[0].name`."""
        if (number := self.numbers.get(path[:2])) is not None:
            path = (path[0], number, *path[2:])
        return format_path(path)

    def place_of(self, path: Path) -> str | None:
        """`file:line` of a value that was written down."""
        place = self.places.get(path)
        return f"{place[0]}:{place[1]}" if place else None

    def refer_to(self, path: Path) -> str:
        """The name of a value that stands elsewhere, for a message about another one."""
        place = self.place_of(path) if self.several else None
        return f"{self.name_of(path)} at {place}" if place else self.name_of(path)

    def entries(self, name: str) -> Iterator[tuple[int, Mapping[str, Value]]]:
        """The well-formed entries of a top-level list of objects, with their indices."""
        listed = self.root.get(name)
        for index, entry in enumerate(listed if isinstance(listed, list) else []):
            if isinstance(entry, dict):
                yield index, entry


def format_path(path: Path) -> str:
    """`("upstreams", 0, "name")` as `upstreams[0].name`."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")


def read_yaml(file: str, text: str) -> Document:
    """Parse one YAML document; what is wrong with it is in `mistakes`."""
    document = Document(file)
    try:
        node = yaml.compose(text, Loader=_Composer)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        said = ", ".join(part for part in (error.context, error.problem) if part)
        # The end of a text is told as the line behind it.
        line = min(mark.line, text.count("\n")) + 1 if mark else None
        document.mistakes.append(Mistake(file, line, "", f"not valid YAML: {said}"))
        return document
    except yaml.YAMLError as error:
        document.mistakes.append(Mistake(file, None, "", f"not valid YAML: {error}"))
        return document
    except RecursionError:
        document.mistakes.append(Mistake(file, None, "", "is nested too deeply"))
        return document
    if node is None:
        return document
    document.places[()] = file, node.start_mark.line + 1
    try:
        root = _Builder(document).build(node, ())
    except _TooLarge:
        document.note_broken((), f"holds more than {_MOST_VALUES} values, counting those that aliases repeat")
        return document
    finally:
        let_go_of_nodes(node)
    if isinstance(root, dict):
        document.root = root
    else:
        document.note_broken((), "a configuration is a mapping of names to values")
    return document


class _Composer(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Leaves scalars as they are written. The loader in C has the same nodes and marks, a dozen times faster; wheels of
    PyYAML have it, an own build may not."""

    def resolve(self, kind: type[yaml.Node], value: str, implicit: tuple[bool, bool]) -> str:
        """The tag of a node that has none."""
        if kind is yaml.ScalarNode and implicit[0]:
            return _PLAIN
        tag: str = super().resolve(kind, value, implicit)
        return tag


class _TooLarge(Exception):
    """Aliases of aliases make few lines stand for more than memory holds."""


class _Builder:
    """Turns nodes into values, noting lines and mistakes in the document."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.built = 0
        self.open: set[int] = set()  # nodes being built: an alias to one of them would never end

    def build(self, node: yaml.Node, path: Path) -> Value:
        self.built += 1
        if self.built > _MOST_VALUES:
            raise _TooLarge
        if len(path) > _MOST_LEVELS:
            self.document.note_broken(path[:1], "is nested too deeply")
            return None
        if id(node) in self.open:
            self.document.note_broken(path, "refers to itself")
            return None
        self.open.add(id(node))
        try:
            if isinstance(node, yaml.MappingNode) and node.tag in _PLAIN_TAGS:
                return self._mapping(node, path)
            if isinstance(node, yaml.SequenceNode) and node.tag in _PLAIN_TAGS:
                return self._sequence(node, path)
            if isinstance(node, yaml.ScalarNode):
                return self._scalar(node, path)
        finally:
            self.open.discard(id(node))
        self._note_tag(node, path)
        return None

    def _mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, Value]:
        built: dict[str, Value] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            key = key_node.value if isinstance(key_node, yaml.ScalarNode) else None
            if not isinstance(key, str):
                self.document.mistakes.append(
                    Mistake(self.document.file, line, format_path(path), "a key must be a plain name")
                )
                continue
            at = (*path, key)
            if key in built:
                (_, first), self.document.places[at] = self.document.places[at], (self.document.file, line)
                self.document.note(at, f"given twice, first on line {first}")
                continue
            self.document.places[at] = self.document.file, line
            built[key] = self.build(value_node, at)
        return built

    def _sequence(self, node: yaml.SequenceNode, path: Path) -> list[Value]:
        built: list[Value] = []
        for index, item in enumerate(node.value):
            self.document.places[(*path, index)] = self.document.file, item.start_mark.line + 1
            built.append(self.build(item, (*path, index)))
        return built

    def _scalar(self, node: yaml.ScalarNode, path: Path) -> Value:
        text: str = node.value
        if node.tag == "tag:yaml.org,2002:str":
            return text
        if _NULL.fullmatch(text):
            return None
        if _BOOL.fullmatch(text):
            return text.lower() == "true"
        if _INT.fullmatch(text):
            return int(text, 0) if text.startswith(("0o", "0x")) else int(text)
        if _FLOAT.fullmatch(text):
            return float(text)
        if node.tag == _PLAIN or node.tag.startswith("tag:yaml.org,2002:"):
            return text  # perhaps of a type of YAML 1.1 alone: a date, `on`, `1:30`
        self._note_tag(node, path)
        return None

    def _note_tag(self, node: yaml.Node, path: Path) -> None:
        self.document.note_broken(path, f"the tag {node.tag} has no meaning here")
