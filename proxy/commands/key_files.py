"""What a configuration says of keys, and how that is changed in its files.

Only what is about keys is read, since who looks after keys need not have the secrets that serving takes.
"""

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from stat import S_IMODE
from tempfile import mkstemp

from pydantic import SecretBytes, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from proxy.commands.key_edits import Entry, NotEditable, edit_keys
from proxy.settings import SettingsError
from proxy.settings.document import Document, Value, read_yaml
from proxy.settings.durable import sync_folder
from proxy.settings.interpolation import interpolate
from proxy.settings.merging import merge
from proxy.settings.reading import read_texts
from proxy.settings.resolve_tenants import resolve_tenant
from proxy.settings.tenant_schema import TenantEntry, TenantPolicySection
from proxy.settings.tenants import Tenant
from proxy.settings.values import Pepper

_PEPPER = "key_pepper"
_PEPPER_VARIABLE = "DRAGOMAN_KEY_PEPPER"
_ABOUT_KEYS = ("name", "disabled", "not_before", "expires_at", "keys")
_PEPPERS: TypeAdapter[SecretBytes] = TypeAdapter(Pepper)


def read_tenants(config: Path, environ: Mapping[str, str]) -> tuple[Tenant, ...]:
    """The tenants of a file or a folder with their names, dates and keys, and nothing of what they may do. Raises
    SettingsError."""
    document = _read(config)
    listed = document.root.get("tenants")
    entries = [_about_keys(entry) for entry in listed] if isinstance(listed, list) else []
    document.root = {"tenants": entries}
    interpolate(document, environ, _folder(config))
    tenants = []
    for index, entry in document.entries("tenants"):
        try:
            tenants.append(resolve_tenant(TenantEntry.model_validate(entry), TenantPolicySection(), frozenset()))
        except ValidationError as error:
            for detail in error.errors(include_url=False, include_input=False):
                document.note(("tenants", index, *detail["loc"]), _message_of(detail))
    if document.mistakes:
        raise SettingsError(document.mistakes)
    return tuple(tenants)


def _about_keys(entry: Value) -> Value:
    return {name: entry[name] for name in _ABOUT_KEYS if name in entry} if isinstance(entry, dict) else entry


def read_pepper(config: Path | None, environ: Mapping[str, str]) -> bytes | None:
    """What hashes are made with, from the environment or from a configuration. Raises SettingsError."""
    if given := environ.get(_PEPPER_VARIABLE):
        document = Document("environment")
        document.override((_PEPPER,), given, "environment", _PEPPER_VARIABLE)
    elif config is not None:
        document = _read(config)
        document.root = {_PEPPER: document.root.get(_PEPPER)}
        interpolate(document, environ, _folder(config))
    else:
        return None
    pepper = document.root[_PEPPER]
    try:
        found = None if pepper is None else _PEPPERS.validate_python(pepper).get_secret_value()
    except ValidationError as error:
        document.note((_PEPPER,), _message_of(error.errors(include_url=False, include_input=False)[0]))
        found = None
    if document.mistakes:
        raise SettingsError(document.mistakes)
    return found


def change_keys(
    config: Path,
    tenant: str,
    *,
    ends: Mapping[str, str] | None = None,
    without: str | None = None,
    new: Entry | None = None,
) -> Path:
    """Change the file that has the tenant, and say which. `ends` and `without` are by `kid`; else as in `edit_keys`.

    Raises NotEditable, UnreadableFile, and OSError when the file can't be written.
    """
    for file in read_texts(config).of:
        # As it is: what is read as text has other line ends.
        text = file.read_bytes().decode()
        for index, entry in read_yaml(str(file), text).entries("tenants"):
            if entry.get("name") == tenant:
                numbers = _numbers(entry)
                try:
                    by_number = {numbers[kid]: moment for kid, moment in (ends or {}).items()}
                    removed = None if without is None else numbers[without]
                except KeyError:
                    raise NotEditable from None
                write_atomically(file, edit_keys(text, index, ends=by_number, without=removed, new=new))
                return file
    raise NotEditable


def _numbers(entry: Mapping[str, Value]) -> dict[Value, int]:
    """Where in the tenant's keys each `kid` is."""
    keys = entry.get("keys")
    listed = enumerate(keys if isinstance(keys, list) else [])
    return {kid: number for number, key in listed if isinstance(key, dict) and isinstance(kid := key.get("kid"), str)}


def write_atomically(file: Path, text: str) -> None:
    """Put a new text in the place of a file, which keeps its mode and its owner. Whoever reads it finds the old one or
    the new one whole. Raises OSError."""
    target = file.resolve()  # a link stays one
    before = target.stat()
    # Hidden, so that it is no file of a configuration's folder.
    descriptor, name = mkstemp(prefix=f".{target.name}.", dir=target.parent)
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as out:
            out.write(text.encode())
            out.flush()
            os.fsync(descriptor)
        if hasattr(os, "chown"):
            with suppress(PermissionError):
                os.chown(temporary, before.st_uid, before.st_gid)
        temporary.chmod(S_IMODE(before.st_mode))
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(target.parent)


def _read(config: Path) -> Document:
    """The configuration as it is written. Raises SettingsError."""
    document = merge([read_yaml(str(file), text) for file, text in read_texts(config).of.items()])
    if document.mistakes:
        raise SettingsError(document.mistakes)
    return document


def _folder(config: Path) -> Path:
    return config if config.is_dir() else config.parent


def _message_of(detail: ErrorDetails) -> str:
    return str(detail["ctx"]["error"]) if detail["type"] == "value_error" else detail["msg"]
