"""What kind of file a document is: by its first bytes, what its sender says, or its name (mapping.md 4.3)."""

from base64 import b64decode
from collections.abc import Mapping

from proxy.canonical.loss import Path
from proxy.canonical.parts import Document
from proxy.protocols.fields import invalid

PDF = "application/pdf"
PDF_START = "JVBERi"  # base64 of "%PDF-"
_UNSAID = frozenset({"", "application/octet-stream", "binary/octet-stream"})
_PLAIN = "text/plain"

# By the end of a name; what stands first for a type names a file that has no name.
_BY_EXTENSION: Mapping[str, str] = {
    "pdf": PDF,
    "txt": _PLAIN,
    "md": "text/markdown",
    "markdown": "text/markdown",
    "csv": "text/csv",
    "tsv": "text/tab-separated-values",
    "html": "text/html",
    "htm": "text/html",
    "css": "text/css",
    "xml": "application/xml",
    "json": "application/json",
    "yaml": "application/yaml",
    "yml": "application/yaml",
    "toml": "application/toml",
    "sql": "application/sql",
    "js": "application/javascript",
    "sh": "application/x-sh",
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    "doc": "application/msword",
    "xls": "application/vnd.ms-excel",
    **dict.fromkeys(
        (
            *("bash", "bat", "c", "cc", "cfg", "conf", "cpp", "cs", "diff", "go", "h", "hpp", "ini", "java", "jsonl"),
            *("jsx", "kt", "log", "lua", "mjs", "patch", "php", "pl", "ps1", "py", "r", "rb", "rs", "rst", "scala"),
            *("svelte", "swift", "tex", "text", "ts", "tsx", "vue"),
        ),
        _PLAIN,
    ),
}
_EXTENSIONS = {media_type: extension for extension, media_type in reversed(list(_BY_EXTENSION.items()))}
_TEXT_TYPES = frozenset(
    {
        "application/json",
        "application/xml",
        "application/javascript",
        "application/yaml",
        "application/x-yaml",
        "application/toml",
        "application/sql",
        "application/x-sh",
    }
)


def essence(media_type: str | None) -> str:
    """The type without its parameters."""
    return (media_type or "").split(";", 1)[0].strip().lower()


def type_of(document: Document) -> str:
    """The media type of a document in base64; "" where nothing tells."""
    source = document.source
    if source is None or source.kind != "base64":
        return ""
    if source.data.startswith(PDF_START):
        return PDF
    said = essence(source.media_type)
    if said not in _UNSAID:
        return said
    extension = (document.title or "").rpartition(".")[2].lower()
    return _BY_EXTENSION.get(extension, "")


def sent_type(document: Document) -> str:
    """The media type that goes with the bytes of a document: what nobody tells is taken for a PDF."""
    said = document.source.media_type if document.source is not None else None
    return type_of(document) or said or PDF


def is_text(media_type: str) -> bool:
    """Whether files of a type are text that a model can read as it is."""
    return media_type.startswith("text/") or media_type in _TEXT_TYPES or media_type.endswith(("+json", "+xml"))


def file_name(document: Document, media_type: str) -> str:
    """The document's name; one that fits its type where it has none, since backends want one."""
    if document.title:
        return document.title
    extension = _EXTENSIONS.get(media_type)
    return f"document.{extension}" if extension else "document"


def decoded_text(encoded: str, path: Path) -> str:
    """The text of a file in base64. Raises `Rejected`."""
    try:
        return b64decode(encoded).decode()
    except ValueError:
        invalid(path, "expected base64 of UTF-8 text.")
