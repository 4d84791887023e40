"""From a file to settings: parse, override, fill in, validate, cross-check, resolve.

Every step notes what it finds and goes on, so that an operator mends a file in one round.
"""

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from types import UnionType
from typing import Annotated, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from proxy.settings.cross_check import cross_check
from proxy.settings.document import Document, Path, read_yaml
from proxy.settings.interpolation import interpolate
from proxy.settings.letting_go import let_go
from proxy.settings.literal_secrets import literal_secrets
from proxy.settings.merging import merge
from proxy.settings.mistakes import SettingsError
from proxy.settings.reading import Texts, read_texts
from proxy.settings.resolve import resolve
from proxy.settings.schema import SettingsFile
from proxy.settings.section import Section
from proxy.settings.snapshot import Settings
from proxy.settings.spelling import did_you_mean
from proxy.settings.watching import Sources

_PREFIX = "DRAGOMAN_"
_SEPARATOR = "__"
_CARRIER_KEY = "DRAGOMAN_CARRIER_KEY"
_CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"


@dataclass(frozen=True, slots=True)
class Loaded:
    """Settings, the files that they came from, and a digest of the configuration's own text."""

    settings: Settings
    sources: Sources = field(default_factory=Sources)
    digest: str = ""


def load(path: str | FilePath, environ: Mapping[str, str], options: Mapping[str, str] | None = None) -> Settings:
    """Read a configuration file, or all files of a folder as one.

    `DRAGOMAN_LISTEN` and the like in `environ` override its scalars, and `options` (by name, such as `listen`)
    override both. Raises SettingsError with every mistake, UnreadableFile when there is no text to look at.
    """
    return load_with_sources(path, environ, options).settings


def load_with_sources(
    path: str | FilePath, environ: Mapping[str, str], options: Mapping[str, str] | None = None
) -> Loaded:
    """As `load`. Its errors say in `sources` which files to watch for someone to mend them."""
    with _uncollected():
        texts = read_texts(FilePath(path))
        document = merge([read_yaml(str(name), text) for name, text in texts.of.items()])
        interpolate(document, environ, texts.folder)
        try:
            settings = finish(document, environ, options, texts.folder)
        except SettingsError as error:
            error.sources = _sources(texts, document)
            raise
        finally:
            sources = _sources(texts, document)
            _let_go_of(document)
        if gc.get_freeze_count():  # in a server, which looks for garbage among what is new alone: this stays
            gc.freeze()
    return Loaded(settings, sources, texts.digest)


def _let_go_of(document: Document) -> None:
    let_go(document.places)
    for listed in document.root.values():
        if isinstance(listed, list):
            let_go(listed)


@contextmanager
def _uncollected() -> Iterator[None]:
    """Without looking for garbage, of which reading makes none: half the time of ten thousand tenants."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def _sources(texts: Texts, document: Document) -> Sources:
    return Sources(tuple(texts.seen), tuple(document.named), {**document.named, **texts.seen})


def finish(
    document: Document,
    environ: Mapping[str, str],
    options: Mapping[str, str] | None,
    folder: FilePath = FilePath(),
) -> Settings:
    """Override, validate and resolve a document. Raises SettingsError with every mistake."""
    if document.mistakes and not document.root:
        raise SettingsError(document.mistakes)
    document.secrets |= set(literal_secrets(document))
    apply_overrides(document, environ, options or {})
    file = _validate(document, folder)
    cross_check(document)
    if document.mistakes or file is None:
        raise SettingsError(document.mistakes)
    settings = resolve(file)
    let_go(file.tenants or [])
    return settings


def apply_overrides(document: Document, environ: Mapping[str, str], options: Mapping[str, str]) -> None:
    """Every scalar can come from the environment: `timeouts.connect` is `DRAGOMAN_TIMEOUTS__CONNECT`."""
    _note_content(document, environ)
    for path in scalar_paths(SettingsFile):
        name = _PREFIX + _SEPARATOR.join(path).upper()
        if environ.get(name):
            document.override(path, environ[name], "environment", name)
    if key := environ.get(_CARRIER_KEY):
        _add_carrier_key(document, key)
    for option, value in options.items():
        document.override((option,), value, "command line", "--" + option.replace("_", "-"))


def _note_content(document: Document, environ: Mapping[str, str]) -> None:
    """OpenTelemetry's own switch for content, which a deployment may have set for all of its programs."""
    telemetry = document.root.get("telemetry")
    if environ.get(_CONTENT) and isinstance(telemetry, dict) and isinstance(telemetry.get("traces"), dict):
        document.override(("telemetry", "traces", "content"), environ[_CONTENT].upper(), "environment", _CONTENT)


def _add_carrier_key(document: Document, key: str) -> None:
    """The key that seals carriers may come alone from the environment, where a deployment keeps its secrets."""
    document.secrets.add(key)
    state = document.root.setdefault("state", {})
    if isinstance(state, dict) and not state.get("carrier_keys"):
        state["carrier_keys"] = [key]


def scalar_paths(section: type[BaseModel]) -> Iterator[tuple[str, ...]]:
    """The paths of all values that are neither a list nor an object."""
    for name, info in section.model_fields.items():
        inner = _section_in(info.annotation)
        if inner is None:
            yield (name,)
        elif not _holds_list(info.annotation):
            yield from ((name, *rest) for rest in scalar_paths(inner))


def _holds_list(annotation: object) -> bool:
    return get_origin(annotation) is list or any(map(_holds_list, get_args(annotation)))


def _validate(document: Document, folder: FilePath) -> SettingsFile | None:
    context = {"folder": folder, "named": document.named, "secrets": document.secrets}
    try:
        return SettingsFile.model_validate(document.root, context=context)
    except ValidationError as error:
        for detail in error.errors(include_url=False, include_input=False):
            if document.hopeless:
                break
            document.note(_path_of(detail), _message_of(detail))
        return None


def _path_of(detail: ErrorDetails) -> Path:
    """Without pydantic's own last step at a key that is itself wrong."""
    return tuple(step for step in detail["loc"] if step != "[key]")


def _message_of(detail: ErrorDetails) -> str:
    match detail["type"]:
        case "missing":
            return "is required"
        case "extra_forbidden":
            *parents, key = detail["loc"]
            section = _section_at(parents)
            return f"is not a key here{did_you_mean(key, section.model_fields if section else ())}"
        case "value_error":
            return str(detail["ctx"]["error"])
        case "literal_error":
            return f"must be {detail['ctx']['expected']}"
        case _:
            return detail["msg"].replace("Input should be", "must be")


def _section_at(path: list[str | int]) -> type[BaseModel] | None:
    """The model of the section at `path`."""
    section: type[BaseModel] | None = SettingsFile
    for step in path:
        if isinstance(step, str) and section is not None:
            section = _section_in(section.model_fields[step].annotation)
    return section


def _section_in(annotation: object) -> type[BaseModel] | None:
    """The model that an annotation such as `list[UpstreamEntry]` is about, if it is about one."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return annotation
    if get_origin(annotation) in (list, Annotated, Union, UnionType):
        return next(filter(None, map(_section_in, get_args(annotation))), None)
    return None
