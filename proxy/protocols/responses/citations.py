"""Annotations of output text and canonical citations (mapping.md 4.7). Ranges count code points of the text part."""

from proxy.canonical.parts import Citation
from proxy.protocols.fields import Wire


def read_citation(wire: Wire) -> Citation:
    """Read an annotation. Never fails: what is not as it should be is left out."""
    url, title, filename = wire.get("url"), wire.get("title"), wire.get("filename")
    start, end = wire.get("start_index"), wire.get("end_index")
    if type(url) is str:
        return Citation(
            "url",
            url,
            title if type(title) is str else None,
            start=start if type(start) is int else None,
            end=end if type(end) is int else None,
            native=wire,
        )
    return Citation("file", title=filename if type(filename) is str else None, native=wire)


def write_citation(citation: Citation, base: int, length: int) -> Wire:
    """The annotation of a citation in a text of `length` code points that begins at `base` of the output text."""
    start = base + (citation.start if citation.start is not None else 0)
    end = base + (citation.end if citation.end is not None else length)
    if citation.kind == "url" and citation.url is not None:
        title = citation.title if citation.title is not None else citation.url
        return {"type": "url_citation", "start_index": start, "end_index": end, "url": citation.url, "title": title}
    return {"type": "file_citation", "file_id": _file_id(citation), "filename": citation.title or "", "index": end}


def _file_id(citation: Citation) -> str:
    """The document's own id, or its place among the documents of the request."""
    native = citation.native or {}
    file_id = native.get("file_id") or native.get("source")
    if isinstance(file_id, str):
        return file_id
    index = native.get("document_index")
    return f"document-{index if type(index) is int else 0}"
