"""What is wrong with values is said when the chart is rendered, by the value's name."""

import helm_python
import pytest
import yaml

from tests.helm.chart import CHART, Values, render, render_texts

INGRESS = {"enabled": True, "hosts": ["a.example.org"]}

REFUSED: list[tuple[str, Values, list[str]]] = [
    # of the wrong type, or unknown
    ("text for seconds", {"drain": {"maxStreamSeconds": "5m"}}, ["/drain/maxStreamSeconds", "want integer"]),
    ("fraction of a replica", {"replicas": 1.5}, ["/replicas", "want integer"]),
    ("misspelt", {"replicaCount": 3}, ["replicaCount"]),
    ("misspelt within", {"drain": {"maxStream": 60}}, ["/drain", "maxStream"]),
    ("no such mode", {"mode": "daemon"}, ["/mode", "'gateway', 'sidecar', 'sidecar-example'"]),
    ("digest that is none", {"image": {"digest": "sha256:abc"}}, ["/image/digest", "sha256"]),
    ("text for a list", {"ingress": {"hosts": "a.example.org"}}, ["/ingress/hosts", "want array"]),
    ("number for a flag", {"autoscaling": {"enabled": 1}}, ["/autoscaling/enabled", "want boolean"]),
    ("empty secret", {"secrets": {"create": {"pepper": ""}}}, ["/secrets/create/pepper", "minLength"]),
    ("configuration as text", {"config": "upstreams: []"}, ["/config", "want object"]),
    ("port out of range", {"service": {"port": 70000}}, ["/service/port", "65,535"]),
    # contradictions
    (
        "longer than is waited for",
        {"drain": {"maxStreamSeconds": 576}},
        ["is 601 s", "600 s", "lower maxStreamSeconds by 1"],
    ),
    (
        "sum of three",
        {"drain": {"maxStreamSeconds": 500, "preStopSeconds": 60, "lameDuckSeconds": 60}},
        ["is 630 s", "lower maxStreamSeconds by 30"],
    ),
    ("drain said twice", {"config": {"drain": {"max_stream": "60s"}}}, ["config.drain", "set drain.maxStreamSeconds"]),
    ("address said twice", {"config": {"listen": "0.0.0.0:80"}}, ["config.listen", "set bindAddress"]),
    ("several processes", {"config": {"workers": 4}}, ["config.workers", "set replicas"]),
    ("section as text", {"config": {"state": "x"}}, ["config.state: expected an object"]),
    (
        "address by the environment",
        {"env": [{"name": "DRAGOMAN_LISTEN", "value": "x"}]},
        ["DRAGOMAN_LISTEN", "bindAddress"],
    ),
    ("two configurations", {"config": {"models": []}, "existingConfigMap": "mine"}, ["config and existingConfigMap"]),
    (
        "two sources of secrets",
        {"secrets": {"existing": "a", "create": {"b": "c"}}},
        ["secrets.existing and secrets.create"],
    ),
    ("a tag that moves", {"image": {"tag": "latest"}}, ["image.tag", "image.digest"]),
    (
        "more at least than at most",
        {"autoscaling": {"enabled": True, "minReplicas": 11}},
        ["minReplicas", "maxReplicas"],
    ),
    ("ingress that is shut out", {"ingress": INGRESS}, ["networkPolicy.clientNamespaces"]),
    ("load balancer that is shut out", {"service": {"type": "LoadBalancer"}}, ["networkPolicy.clientCIDRs"]),
    ("ingress to a sidecar", {"mode": "sidecar", "ingress": INGRESS}, ["ingress.enabled", "mode is sidecar"]),
    ("scaling a sidecar", {"mode": "sidecar", "autoscaling": {"enabled": True}}, ["autoscaling.enabled", "sidecar"]),
    ("no host", {"ingress": {"enabled": True}}, ["ingress.hosts"]),
    ("no Gateway", {"httpRoute": {"enabled": True}}, ["httpRoute.parentRefs"]),
]


@pytest.mark.parametrize(("values", "said"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_refused(values: Values, said: list[str]) -> None:
    with pytest.raises(helm_python.HelmError) as refusal:
        render(values)
    for words in said:
        assert words in str(refusal.value)


def test_every_value_has_a_schema() -> None:
    """And every schema a value, so that neither is forgotten. Two keys come from charts that depend on this one."""
    schema = helm_python.Chart.load(CHART).schema
    assert schema is not None
    defaults = yaml.safe_load(CHART.joinpath("values.yaml").read_text("utf-8"))
    _compare(schema, {**defaults, "global": {}, "enabled": True}, "")


def _compare(schema: Values, value: object, path: str) -> None:
    if "properties" not in schema or not isinstance(value, dict):
        return
    assert schema["additionalProperties"] is False, path
    if path.endswith("resources"):
        return
    assert schema["properties"].keys() == value.keys(), path
    for key, inner in schema["properties"].items():
        _compare(inner, value[key], f"{path}/{key}")


@pytest.mark.parametrize(
    ("values", "said", "unsaid"),
    [
        (
            {},
            ["http://dragoman.llm.svc:8080/v1", "ANTHROPIC_BASE_URL", "Nobody is let in yet", "is 325 s"],
            ["Each replica"],
        ),
        (
            {"config": {"tenants": [{"name": "a"}]}, "service": {"port": 80}},
            ["http://dragoman.llm.svc:80/v1", "Each replica counts"],
            ["Nobody"],
        ),
        (
            {"config": {"tenants": [{"name": "a"}], "state": {"url": "redis://r"}}},
            ["http://dragoman.llm.svc:8080 "],
            ["Each replica", "Nobody"],
        ),
        ({"mode": "sidecar"}, ["http://127.0.0.1:8080/v1", "dragoman.sidecar"], ["svc"]),
    ],
)
def test_notes_say_where_it_is_and_what_is_missing(values: Values, said: list[str], unsaid: list[str]) -> None:
    notes = render_texts(values)["NOTES.txt"]
    assert all(words in notes for words in said)
    assert not any(words in notes for words in unsaid)
