"""The form of the file's section `telemetry.traces`."""

import re
from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import Field, PlainValidator, WithJsonSchema, model_validator

from proxy.settings.section import Section
from proxy.settings.telemetry import WITH_EVENTS, Accept, Content
from proxy.settings.values import HeaderName, Secret


def _endpoint(value: object) -> str:
    """Where spans are posted to. A bare host gets the path that OTLP has by default."""
    parts = urlsplit(value) if isinstance(value, str) else urlsplit("")
    try:
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if not usable or not isinstance(value, str) or re.search(r"\s", value):
        raise ValueError("must be an http or https address where OTLP is taken, such as http://collector:4318")
    if parts.port == 4317:
        raise ValueError("is OTLP's port for gRPC: spans are sent over HTTP, to 4318 by default")
    if parts.username is not None or parts.password is not None:
        raise ValueError("must hold no user or password: use headers")
    if parts.query or parts.fragment:
        raise ValueError("must hold no query and no fragment")
    path = parts.path.rstrip("/") or "/v1/traces"
    return f"{parts.scheme}://{parts.netloc}{path}"


Endpoint = Annotated[
    str, PlainValidator(_endpoint), WithJsonSchema({"type": "string", "pattern": r"^(?:https?://[^\s/?#]\S*)$"})
]


class TracesSection(Section):
    endpoint: Endpoint
    headers: dict[HeaderName, Secret] = {}
    sample: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = 0.1
    accept: Accept = "trusted"
    content: Content = "NO_CONTENT"

    @model_validator(mode="after")
    def _has_place_for_events(self) -> Self:
        if self.content in WITH_EVENTS and not self.endpoint.endswith("/traces"):
            raise ValueError("endpoint must end in /traces where events with content go to /logs beside it")
        return self
