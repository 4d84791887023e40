"""Citations, both ways (mapping.md 4.7). Messages cites for a whole text block, so none has offsets of its own."""

from proxy.canonical.parts import Citation
from proxy.protocols.fields import Wire, is_object

# Types of an entry of `citations` (messages.md 7.8).
WEB = "web_search_result_location"
SEARCH = "search_result_location"
LOCATIONS = frozenset({"char_location", "page_location", "content_block_location", SEARCH, WEB})


def read_citations(wire: object) -> list[Citation] | None:
    """The `citations` of a text block; entries that are none are left out."""
    if type(wire) is not list or not wire:
        return None
    return [read_citation(entry) for entry in wire if is_object(entry)] or None


def read_citation(wire: Wire) -> Citation:
    """One entry of `citations`."""

    def text(name: str) -> str | None:
        value = wire.get(name)
        return value if type(value) is str else None

    cited = text("cited_text")
    if wire.get("type") == WEB:
        return Citation("url", url=text("url"), title=text("title"), cited_text=cited, native=wire)
    if wire.get("type") == SEARCH:
        source = text("source") or ""
        is_page = source.startswith(("http://", "https://"))
        return Citation("url" if is_page else "file", source, text("title"), cited, native=wire)
    return Citation("document", title=text("document_title"), cited_text=cited, native=wire)


def is_own(native: Wire | None) -> bool:
    """Whether a citation came from a Messages backend, as `native` shows."""
    wire_type = native.get("type") if native is not None else None
    return type(wire_type) is str and wire_type in LOCATIONS


def write_citation(citation: Citation, text: str) -> Wire | None:
    """An entry for the text block that holds `text`; None when Messages has no form for it."""
    if is_own(citation.native):
        return citation.native
    if citation.kind != "url" or citation.url is None:
        return None
    cited = citation.cited_text
    if cited is None:
        cited = text[citation.start or 0 : citation.end]
    return {
        "type": WEB,
        "url": citation.url,
        "title": citation.title,
        "cited_text": cited,
        "encrypted_index": "",
    }
