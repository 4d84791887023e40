"""What a request is called by whom it passed before: its id and its trace, as far as they can be believed."""

from aiohttp.web import BaseRequest

from proxy.server import ids
from proxy.settings import Settings
from proxy.telemetry import trace_context
from proxy.telemetry.trace_context import TraceContext
from proxy.tenancy.addresses import in_networks


def trace_context_of(request: BaseRequest, settings: Settings) -> TraceContext:
    """The caller's trace, where the settings take it over."""
    if "traceparent" not in request.headers:  # nor has what is no HTTP any
        return trace_context.begin()
    traceparent = request.headers.getall("traceparent")
    accept = settings.traces.accept if settings.traces is not None else "trusted"
    if len(traceparent) != 1 or accept == "never":
        return trace_context.begin()
    believed = in_networks(request.remote, settings.trusted_proxies)
    if not believed and accept == "trusted":
        return trace_context.begin()
    return trace_context.continued(traceparent[0], request.headers.getall("tracestate", ()), believed=believed)


def trusted_id(request: BaseRequest, settings: Settings) -> str | None:
    """The id that a trusted proxy has given the request (operations.md 2.1)."""
    names = settings.trust_request_id_from
    if not names or not in_networks(request.remote, settings.trusted_proxies):
        return None
    return next((given for name in names if (given := ids.client_id(request.headers.get(name)))), None)
