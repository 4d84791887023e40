"""Files that the configuration names: they are read, or at least looked at, while it is checked."""

import importlib.util
import ssl
from pathlib import Path
from typing import Annotated

from pydantic import PlainValidator, SecretStr, ValidationInfo, WithJsonSchema

from proxy.settings.interpolation import read_secret_file
from proxy.settings.values import parse_secret
from proxy.settings.watching import SUFFIXES, stamp


def _file(value: object, info: ValidationInfo) -> Path:
    """A file that exists; a relative path starts at the configuration file's folder."""
    if not isinstance(value, str) or not value:
        raise ValueError("must be a path")
    context = info.context or {}
    path = Path(context.get("folder", "."), value)
    context.get("named", {})[path] = stamp(path)
    if not path.is_file():
        raise ValueError(f"there is no file {path}")
    return path


def _kept_file(value: object, info: ValidationInfo) -> Path:
    """A file that the proxy writes: it need not exist, but its folder has to. Nobody watches it."""
    if not isinstance(value, str) or not value:
        raise ValueError("must be a path")
    path = Path((info.context or {}).get("folder", "."), value)
    if path.suffix in SUFFIXES:
        raise ValueError(f"must not end in {path.suffix}: it could be taken for a part of the configuration")
    if path.is_dir():
        raise ValueError(f"{path} is a folder")
    if not path.parent.is_dir():
        raise ValueError(f"there is no folder {path.parent}")
    return path


def _tokenizer_file(value: object, info: ValidationInfo) -> Path:
    path = _file(value, info)
    if importlib.util.find_spec("tokenizers") is None:
        raise ValueError("needs a library that is not installed: pip install 'dragoman[tokenizers]'")
    from tokenizers import Tokenizer

    try:
        Tokenizer.from_file(str(path))
    except Exception as error:  # noqa: BLE001 - the library raises no narrower one
        raise ValueError(f"{path} holds no tokenizer: {error}") from None
    return path


def _ca_file(value: object, info: ValidationInfo) -> Path:
    path = _file(value, info)
    try:
        ssl.create_default_context(cafile=path)
    except OSError:
        raise ValueError(f"{path} holds no certificate in PEM form") from None
    return path


def _client_cert(value: object, info: ValidationInfo) -> Path:
    path = _file(value, info)
    try:
        # Without a password given, OpenSSL would ask the terminal for one.
        ssl.create_default_context().load_cert_chain(path, password="")
    except OSError:
        raise ValueError(f"{path} holds no certificate with its unencrypted key in PEM form") from None
    return path


class FileSecret(SecretStr):
    """A secret out of a file. `changed`: when that was last written, Unix seconds."""

    def __init__(self, secret: str, changed: float) -> None:
        super().__init__(secret)
        self.changed = changed


def _secret_file(value: object, info: ValidationInfo) -> FileSecret:
    path = _file(value, info)
    secret = read_secret_file(path)
    (info.context or {}).get("secrets", set()).add(secret)
    return FileSecret(parse_secret(secret).get_secret_value(), path.stat().st_mtime)


_PATH = WithJsonSchema({"type": "string", "minLength": 1})

TokenizerFile = Annotated[Path, PlainValidator(_tokenizer_file), _PATH]
CaFile = Annotated[Path, PlainValidator(_ca_file), _PATH]
ClientCert = Annotated[Path, PlainValidator(_client_cert), _PATH]
KeptFile = Annotated[Path, PlainValidator(_kept_file), _PATH]
SecretFile = Annotated[SecretStr, PlainValidator(_secret_file), _PATH]
