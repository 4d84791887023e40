"""Settings without a file: the vendors' usual variables are enough to start."""

from collections.abc import Mapping

from proxy.settings.document import Document, Value
from proxy.settings.loading import finish
from proxy.settings.mistakes import Mistake, SettingsError
from proxy.settings.snapshot import DEMO_UPSTREAM, Settings

_ANTHROPIC: dict[str, Value] = {
    "name": "anthropic",
    "protocol": "messages",
    "base_url": "https://api.anthropic.com",
}
_OPENAI: dict[str, Value] = {
    "name": "openai",
    "protocol": "responses",
    "base_url": "https://api.openai.com",
}
# Port 0 until the backend has started: Settings.with_demo_at.
_DEMO: dict[str, Value] = {"name": DEMO_UPSTREAM, "protocol": "messages", "base_url": "http://127.0.0.1:0"}


class NothingToServe(SettingsError):
    """There is neither a key nor a demo to serve with."""

    def __init__(self) -> None:
        wanted = "neither ANTHROPIC_API_KEY nor OPENAI_API_KEY is set"
        super().__init__([Mistake("environment", None, "", wanted)])


def from_environment(
    environ: Mapping[str, str], demo: bool = False, options: Mapping[str, str] | None = None
) -> Settings:
    """One upstream per vendor key, or the embedded backend alone: a demo must cost nothing.

    Overrides as in `load`. Raises NothingToServe, or SettingsError for an override that is wrong.
    """
    document = Document("environment")
    upstreams: list[Value] = []
    models: list[Value] = []
    if demo:
        upstreams.append(_DEMO)
        models.append({"match": "*", "upstream": DEMO_UPSTREAM})
    else:
        for vendor, variable in ((_ANTHROPIC, "ANTHROPIC_API_KEY"), (_OPENAI, "OPENAI_API_KEY")):
            if key := environ.get(variable):
                document.secrets.add(key)
                document.overrides["upstreams", len(upstreams), "api_key"] = ("environment", variable)
                upstreams.append({**vendor, "api_key": key})
                models.append({"match": "*", "upstream": vendor["name"]})
        if not upstreams:
            raise NothingToServe
        if len(upstreams) > 1:
            models[0] = {"match": "claude-*", "upstream": _ANTHROPIC["name"]}
    document.root = {"upstreams": upstreams, "models": models}
    return finish(document, environ, options)
