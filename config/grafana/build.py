"""Builds dragoman.json, the dashboard, from what its panels ask: `python config/grafana/build.py` writes it anew.

Plain dicts, since the generators that exist speak for versions of Grafana that came and went. Panels stand in rows of
24 columns in the order that they have here. A query may use only metrics of the product, which a test holds it to.
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

TARGET = Path(__file__).with_name("dragoman.json")
ROW_WIDTH, HEIGHT = 24, 8
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
QUANTILES = (0.5, 0.95, 0.99)

Json = dict[str, Any]


def of(metric: str, *matchers: str) -> str:
    """The series of a metric that the variables at the top of the dashboard let through."""
    wanted = ", ".join(('namespace=~"$namespace"', 'job=~"$job"', *matchers))
    return f"{metric}{{{wanted}}}"


def rate(metric: str, *matchers: str, by: str = "") -> str:
    """How much a counter grows a second, summed over all replicas."""
    grouped = f"sum by ({by})" if by else "sum"
    return f"{grouped} (rate({of(metric, *matchers)}[$__rate_interval]))"


def quantile(q: float, metric: str, *matchers: str, by: str = "") -> str:
    """What a share `q` of a histogram's observations stays under."""
    labels = f"le, {by}" if by else "le"
    return f"histogram_quantile({q}, {rate(f'{metric}_bucket', *matchers, by=labels)})"


def mean(metric: str, *matchers: str) -> str:
    """The average observation of a histogram."""
    return f"{rate(f'{metric}_sum', *matchers)} / {rate(f'{metric}_count', *matchers)}"


def of_proxies(metric: str) -> str:
    """A metric that any process has, of those processes that are Dragoman."""
    return f"{of(metric)} and on (job, instance) {of('dragoman_build_info')}"


def quantiles(metric: str, *matchers: str, exemplars: bool = False) -> list[Json]:
    """The usual three of a histogram."""
    return [query(quantile(q, metric, *matchers), f"p{q * 100:g}", exemplars=exemplars) for q in QUANTILES]


def query(expression: str, legend: str, *, exemplars: bool = False, latest: bool = False) -> Json:
    """`legend`: a template of labels. `latest`: only the newest value, for panels without a time axis."""
    return {
        "datasource": DATASOURCE,
        "editorMode": "code",
        "expr": expression,
        "legendFormat": legend,
        "exemplar": exemplars,
        "instant": latest,
        "range": not latest,
    }


def panel(
    title: str,
    description: str,
    queries: Iterable[Json],
    *,
    unit: str,
    width: int = 8,
    kind: str = "timeseries",
    stack: bool = False,
    log: bool = False,
    limit: float | None = None,
    top: float | None = None,
) -> Json:
    """`limit`: where a value becomes bad, shown as a red line. `top`: the largest value there can be."""
    steps: list[Json] = [{"color": "green", "value": None}]
    if limit is not None:
        steps.append({"color": "red", "value": limit})
    defaults: Json = {
        "unit": unit,
        "min": None if log else 0,
        "max": top,
        "thresholds": {"mode": "absolute", "steps": steps},
        "color": {"mode": "palette-classic" if kind == "timeseries" else "thresholds"},
    }
    options: Json = {"orientation": "horizontal", "displayMode": "basic", "reduceOptions": {"calcs": ["lastNotNull"]}}
    if kind == "timeseries":
        defaults["custom"] = {
            "drawStyle": "line",
            "lineWidth": 1,
            "fillOpacity": 25 if stack else 5,
            "showPoints": "never",
            "stacking": {"mode": "normal" if stack else "none", "group": "A"},
            "scaleDistribution": {"type": "log", "log": 10} if log else {"type": "linear"},
            "thresholdsStyle": {"mode": "line" if limit is not None else "off"},
        }
        options = {
            "legend": {"displayMode": "table", "placement": "bottom", "calcs": ["lastNotNull", "max"]},
            "tooltip": {"mode": "multi", "sort": "desc"},
        }
    return {
        "title": title,
        "description": description,
        "type": kind,
        "datasource": DATASOURCE,
        "gridPos": {"w": width, "h": HEIGHT},
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": options,
        "targets": [{**each, "refId": chr(ord("A") + number)} for number, each in enumerate(queries)],
    }


MODEL, TENANT = 'model=~"$model"', 'tenant=~"$tenant"'
FAILED = 'outcome!="ok"'
PAIR = "{{client}} → {{backend}}"

REQUESTS = [
    panel(
        "Requests by protocol pair",
        "Finished requests a second: the protocol that the client speaks → the one that its backend speaks. "
        "`none` is a request that was refused before a backend was chosen.",
        [query(rate("dragoman_requests_total", MODEL, by="client, backend"), PAIR)],
        unit="reqps",
        stack=True,
    ),
    panel(
        "Requests that did not end well",
        "Their share of all, by how they ended. client_error: the request was wrong. policy: a tenant's policy or "
        "limit refused it. upstream_error: the backend failed. proxy_error: a bug here. cancelled: the client left. "
        "incomplete: the stream broke after it had begun.",
        [
            query(
                f"{rate('dragoman_requests_total', MODEL, FAILED, by='outcome')} / on () group_left () "
                f"{rate('dragoman_requests_total', MODEL)}",
                "{{outcome}}",
            )
        ],
        unit="percentunit",
        stack=True,
    ),
    panel(
        "Errors by origin",
        "Errors a second, by who is to blame and what it was. Whatever has the origin `proxy` is worth a look. "
        "Of all models, whatever is chosen above.",
        [query(rate("dragoman_errors_total", by="origin, kind"), "{{origin}}: {{kind}}")],
        unit="reqps",
    ),
    panel(
        "Duration",
        "From a request's arrival to the last byte of its answer, streams included: half of all requests are faster "
        "than p50, one in a hundred is slower than p99. Long answers take long, so look at the first token too. "
        "The dots are single requests; one with a trace leads to it.",
        quantiles("dragoman_request_duration_seconds", MODEL, exemplars=True),
        unit="s",
        width=12,
    ),
    panel(
        "Duration by protocol pair, p95",
        "The time that 95 of 100 requests stay under, for each pair of protocols. A pair that is slow by itself "
        "points to its backend or to its translation.",
        [query(quantile(0.95, "dragoman_request_duration_seconds", MODEL, by="client, backend"), PAIR, exemplars=True)],
        unit="s",
        width=12,
    ),
]

LATENCY = [
    panel(
        "Time to first token",
        "From a stream's request to the first word of the answer: what people feel. Streams only.",
        quantiles("dragoman_time_to_first_token_seconds", MODEL, exemplars=True),
        unit="s",
    ),
    panel(
        "Where a request's time goes",
        "Averages, on an axis where each line up is ten times as much. The backend has all but the lowest line; "
        "the lowest is what the proxy itself adds to a request.",
        [
            query(mean("dragoman_request_duration_seconds", MODEL), "request in all"),
            query(mean("dragoman_upstream_duration_seconds", MODEL), "backend, an attempt"),
            query(mean("dragoman_upstream_time_to_first_event_seconds", MODEL), "backend, to its first event"),
            query(mean("dragoman_overhead_seconds"), "the proxy's own work"),
        ],
        unit="s",
        log=True,
    ),
    panel(
        "The proxy's own overhead",
        "Time of a request that was spent neither on waiting for the backend nor on waiting for the client. Kernel, "
        "TLS and the accept queue are not in it. Over the red line, look at the loop's lag and at the CPU.",
        quantiles("dragoman_overhead_seconds"),
        unit="s",
        limit=0.05,
    ),
    panel(
        "Between tokens",
        "How evenly answers flow. Gap: a stream's average time between two pieces of text. Stall: the longest "
        "silence in a stream.",
        [
            query(quantile(0.5, "dragoman_inter_token_seconds", MODEL), "gap p50"),
            query(quantile(0.95, "dragoman_inter_token_seconds", MODEL), "gap p95"),
            query(quantile(0.95, "dragoman_stream_stall_seconds"), "stall p95"),
        ],
        unit="s",
        log=True,
    ),
    panel(
        "First event of each backend, p95",
        "From the request's sending to the backend's first sign of life. If this rises, the vendor is slow; if only "
        "the time to the first token rises, the proxy or the model's thinking is.",
        [query(quantile(0.95, "dragoman_upstream_time_to_first_event_seconds", MODEL, by="upstream"), "{{upstream}}")],
        unit="s",
    ),
    panel(
        "Attempts at backends",
        "Requests a second that were sent to backends, by how each ended, and those among them that were sent once "
        "more.",
        [
            query(rate("dragoman_upstream_attempts_total", by="upstream, result"), "{{upstream}}: {{result}}"),
            query(rate("dragoman_retries_total", by="upstream, reason"), "{{upstream}}: again for {{reason}}"),
        ],
        unit="reqps",
    ),
]

TRANSLATION = [
    panel(
        "Requests with a loss",
        "Share of requests of which something could not be carried over to the backend's protocol. Some pairs always "
        "lose a little; a jump means that a client began to use something new.",
        [
            query(
                f"clamp_max({rate('dragoman_translation_requests_with_loss_total', by='client, backend')} / "
                f"{rate('dragoman_requests_total', by='client, backend')}, 1)",
                PAIR,
            )
        ],
        unit="percentunit",
        width=6,
    ),
    panel(
        "Losses by rule",
        "The ten most frequent. approx: carried as something near. drop: left out. `dragoman losses` tells what each "
        "rule means.",
        [
            query(
                "topk(10, " + rate("dragoman_translation_loss_total", 'level!="refuse"', by="rule, level") + ")",
                "{{rule}} ({{level}})",
            )
        ],
        unit="ops",
        width=6,
    ),
    panel(
        "Refused translations",
        "Requests that were refused since something in them can't be carried: always for some rules, for others only "
        "where strictness was asked for. The client was told which field it was.",
        [
            query(
                rate("dragoman_translation_loss_total", 'level="refuse"', by="rule, client, backend"),
                f"{{{{rule}}}}, {PAIR}",
            )
        ],
        unit="ops",
        width=6,
    ),
    panel(
        "Unknown fields",
        "Members that the proxy does not know, in requests of clients and in answers of backends. A new one means that "
        "a vendor changed something, usually harmless, but maybe worth a newer version.",
        [query(rate("dragoman_unknown_fields_total", by="protocol, direction"), "{{protocol}}, {{direction}}")],
        unit="ops",
        width=6,
    ),
]

TENANTS = [
    panel(
        "Tokens by tenant",
        "Tokens a second of the ten tenants that use most, all kinds of tokens together.",
        [query(f"topk(10, {rate('dragoman_tenant_tokens_total', TENANT, by='tenant')})", "{{tenant}}")],
        unit="short",
    ),
    panel(
        "Tokens by kind",
        "Of all tenants. The kinds don't overlap: input is without what caches gave (cache_read) or took "
        "(cache_write), output is without reasoning.",
        [query(rate("dragoman_tokens_total", MODEL, by="type"), "{{type}}")],
        unit="short",
        stack=True,
    ),
    panel(
        "Cost an hour by tenant",
        "US dollars an hour at the current pace, by the configuration's prices. Models without a price count nothing.",
        [query(f"3600 * {rate('dragoman_tenant_cost_usd_total', TENANT, by='tenant')}", "{{tenant}}")],
        unit="currencyUSD",
        stack=True,
    ),
    panel(
        "Turned away",
        "Requests a second that were refused: by a tenant's limit (rpm, rpd: requests a minute and a day; tpm, tpd: "
        "tokens; concurrency, budget, body), or for their key or address.",
        [
            query(rate("dragoman_limit_rejections_total", TENANT, by="tenant, dimension"), "{{tenant}}: {{dimension}}"),
            query(rate("dragoman_auth_total", 'result!="ok"', by="result"), "key: {{result}}"),
        ],
        unit="reqps",
        width=12,
    ),
    panel(
        "How full limits are",
        "Each limit of each tenant, now; at 100 % requests are refused until its window moves on. Replicas that count "
        "by themselves have a limit each: the fullest is shown.",
        [
            query(
                f"max by (tenant, dimension) ({of('dragoman_limit_utilization_ratio', TENANT)})",
                "{{tenant}}: {{dimension}}",
                latest=True,
            )
        ],
        unit="percentunit",
        width=12,
        kind="bargauge",
        limit=0.9,
        top=1,
    ),
]

RUNTIME = [
    panel(
        "Open requests and streams",
        "What is going on now, over all replicas. If it grows while the rate does not, backends have become slow.",
        [
            query(f"sum ({of('dragoman_in_flight_requests')})", "requests"),
            query(f"sum ({of('dragoman_streams_active')})", "streams"),
        ],
        unit="short",
    ),
    panel(
        "Lag of the event loop",
        "How late the process comes to things that are due. The first sign that a replica has too much to do: over the "
        "red line, add replicas.",
        quantiles("dragoman_event_loop_lag_seconds"),
        unit="s",
        limit=0.1,
    ),
    panel(
        "CPU",
        "Cores in use, by replica. One process uses one core at most.",
        [
            query(
                f"rate({of('process_cpu_seconds_total')}[$__rate_interval]) "
                f"and on (job, instance) {of('dragoman_build_info')}",
                "{{instance}}",
            )
        ],
        unit="short",
    ),
    panel(
        "Memory",
        "Resident memory, by replica. It should be flat under even load.",
        [query(of_proxies("process_resident_memory_bytes"), "{{instance}}")],
        unit="bytes",
        width=12,
    ),
    panel(
        "Restarts and configuration",
        "Time since each replica began; a fall to zero is a restart. Steps are changes of the configuration since "
        "then; `rejected` has a mistake and was not taken.",
        [
            query(f"(time() - ({of_proxies('process_start_time_seconds')})) / 60", "{{instance}}: minutes up"),
            query(f"sum by (result) ({of('dragoman_config_reload_total')})", "changes: {{result}}"),
        ],
        unit="short",
        width=12,
    ),
]

ROWS = {
    "Requests": REQUESTS,
    "Latency": LATENCY,
    "Translation": TRANSLATION,
    "Tenants": TENANTS,
    "Runtime": RUNTIME,
}


def variable(name: str, label: str, metric: str) -> Json:
    """A choice among the values of a label. All of them also lets through what has no such label."""
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": DATASOURCE,
        "query": {"query": f"label_values({metric}, {name})", "refId": name},
        "definition": f"label_values({metric}, {name})",
        "current": {"text": ["All"], "value": ["$__all"]},
        "includeAll": True,
        "allValue": ".*",
        "multi": True,
        "refresh": 2,
        "sort": 1,
    }


def variables() -> list[Json]:
    """In the order in which each narrows the next."""
    datasource = {
        "name": "datasource",
        "label": "Prometheus",
        "type": "datasource",
        "query": "prometheus",
        "current": {},
        "refresh": 1,
    }
    return [
        datasource,
        variable("namespace", "Namespace", "dragoman_build_info"),
        variable("job", "Job", 'dragoman_build_info{namespace=~"$namespace"}'),
        variable("model", "Model", of("dragoman_requests_total")),
        variable("tenant", "Tenant", of("dragoman_tenant_requests_total")),
    ]


def placed() -> Iterator[Json]:
    """All panels with their ids and places, each row under its title."""
    number, y = 1, 0
    for title, panels in ROWS.items():
        x = ROW_WIDTH
        yield {
            "id": number,
            "type": "row",
            "title": title,
            "collapsed": False,
            "panels": [],
            "gridPos": {"x": 0, "y": y, "w": ROW_WIDTH, "h": 1},
        }
        y += 1 - HEIGHT
        for each in panels:
            number += 1
            width = each["gridPos"]["w"]
            if x + width > ROW_WIDTH:
                x, y = 0, y + HEIGHT
            yield {"id": number, **each, "gridPos": {"x": x, "y": y, "w": width, "h": HEIGHT}}
            x += width
        number, y = number + 1, y + HEIGHT


def dashboard() -> Json:
    """As Grafana imports it."""
    return {
        "uid": "dragoman",
        "title": "Dragoman",
        "description": "What Dragoman, a proxy that translates between LLM protocols, does and how well.",
        "tags": ["dragoman", "llm"],
        "schemaVersion": 39,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser",
        "templating": {"list": variables()},
        "annotations": {
            "list": [
                {
                    "name": "Configuration changed",
                    "datasource": DATASOURCE,
                    "enable": True,
                    "iconColor": "blue",
                    "expr": f"max ({of('dragoman_config_last_reload_success_timestamp_seconds')}) * 1000",
                    "useValueForTime": "on",
                    "titleFormat": "Configuration changed",
                }
            ]
        },
        "panels": list(placed()),
    }


def text() -> str:
    """The file's."""
    return json.dumps(dashboard(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    TARGET.write_text(text(), "utf-8")
