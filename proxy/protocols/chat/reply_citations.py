"""Citations in answers: OpenAI's annotations, and the lists of sources that search servers add (mapping.md 4.7)."""

from proxy.canonical.parts import Citation
from proxy.protocols.fields import Wire, is_object


def read_annotation(wire: object) -> Citation | None:
    """A `url_citation`; `start` and `end` still count from the start of the whole content."""
    citation = wire.get("url_citation") if is_object(wire) else None
    if not is_object(citation) or not is_object(wire):
        return None
    url = citation.get("url")
    title = citation.get("title")
    if type(url) is not str:
        return None
    start, end = citation.get("start_index"), citation.get("end_index")
    placed = type(start) is int and type(end) is int
    return Citation(
        "url",
        url,
        title if type(title) is str else None,
        start=start if placed and type(start) is int else None,
        end=end if placed and type(end) is int else None,
        native=wire,
    )


def read_searches(wire: Wire) -> list[Citation]:
    """Perplexity's sources of the whole answer: `search_results` say more than `citations`."""
    results = wire.get("search_results")
    if type(results) is list:
        found = [citation for entry in results if (citation := _read_result(entry)) is not None]
        if found:
            return found
    urls = wire.get("citations")
    return [Citation("url", url) for url in urls if type(url) is str] if type(urls) is list else []


def _read_result(entry: object) -> Citation | None:
    if not is_object(entry) or type(entry.get("url")) is not str:
        return None
    title = entry.get("title")
    return Citation("url", str(entry["url"]), title if type(title) is str else None)
