"""What single values do to the objects."""

from itertools import product

import pytest
import yaml

from tests.helm.chart import WAYS, Manifest, Values, configuration, only, render


def container(values: Values) -> Manifest:
    found: Manifest = only(render(values), "Deployment")["spec"]["template"]["spec"]["containers"][0]
    return found


@pytest.mark.parametrize(("longest", "pre_stop", "lame_duck"), [*product((1, 300, 470), (0, 10, 60), (0, 5, 60))])
def test_drain_is_computed_from_one_place(longest: int, pre_stop: int, lame_duck: int) -> None:
    """operations.md 6.2: the grace period covers what comes before the streams' time, that, and 10 s."""
    drain = {"maxStreamSeconds": longest, "preStopSeconds": pre_stop, "lameDuckSeconds": lame_duck}
    manifests = render({"drain": drain})
    pod = only(manifests, "Deployment")["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] == pre_stop + lame_duck + longest + 10 <= 600
    hook = pod["containers"][0].get("lifecycle", {}).get("preStop")
    assert hook == ({"sleep": {"seconds": pre_stop}} if pre_stop else None)
    written = yaml.safe_load(configuration(manifests))["drain"]
    assert written == {"lame_duck": f"{lame_duck}s", "max_stream": f"{longest}s"}


def test_drain_holds_for_a_configuration_of_ones_own() -> None:
    given = {one["name"]: one["value"] for one in container(WAYS["own-configuration"])["env"]}
    assert given == {
        "DRAGOMAN_LISTEN": "0.0.0.0:8080",
        "DRAGOMAN_ADMIN_LISTEN": "0.0.0.0:9090",
        "DRAGOMAN_DRAIN__LAME_DUCK": "5s",
        "DRAGOMAN_DRAIN__MAX_STREAM": "60s",
    }


def test_probes_ask_the_admin_port() -> None:
    probes = container({})
    assert (probes["startupProbe"]["periodSeconds"], probes["startupProbe"]["failureThreshold"]) == (1, 30)
    assert (probes["readinessProbe"]["periodSeconds"], probes["readinessProbe"]["failureThreshold"]) == (5, 2)
    assert (probes["livenessProbe"]["periodSeconds"], probes["livenessProbe"]["failureThreshold"]) == (10, 6)
    paths = {name: probes[name]["httpGet"] for name in ("startupProbe", "readinessProbe", "livenessProbe")}
    assert paths == {
        "startupProbe": {"path": "/readyz", "port": "http-admin"},
        "readinessProbe": {"path": "/readyz", "port": "http-admin"},
        "livenessProbe": {"path": "/healthz", "port": "http-admin"},
    }


def test_sidecar_starts_first_and_stops_fast() -> None:
    """operations.md 6.4."""
    manifests = render(WAYS["sidecar-example"])
    assert not {manifest["kind"] for manifest in manifests} & {"Service", "Deployment", "NetworkPolicy"}
    pod = only(manifests, "Job")["spec"]["template"]
    (sidecar,) = pod["spec"]["initContainers"]
    assert sidecar["restartPolicy"] == "Always"
    assert sidecar["startupProbe"]["periodSeconds"] == 1
    assert "lifecycle" not in sidecar
    assert sidecar["resources"]["requests"] == {"cpu": "25m", "memory": "64Mi"}
    written = yaml.safe_load(configuration(manifests))
    assert (written["listen"], written["drain"]) == ("localhost:8080", {"lame_duck": "0s", "max_stream": "5s"})
    assert "tenants" not in written
    monitor = only(manifests, "PodMonitor")["spec"]
    assert monitor["selector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    assert monitor["podMetricsEndpoints"][0]["port"] in [port["name"] for port in sidecar["ports"]]


def test_restarts_only_for_what_is_not_reloaded() -> None:
    def checksum(**values: object) -> str:
        deployment = only(render({"config": {"upstreams": [], **values}, "hotReload": hot}), "Deployment")
        text: str = deployment["spec"]["template"]["metadata"]["annotations"]["checksum/config"]
        return text

    for hot in (True, False):
        assert (checksum() == checksum(models=[{"match": "*"}])) is hot
        for restarted in (
            {"state": {"url": "redis://other"}},
            {"state": {"limits_file": "/limits"}},
            {"telemetry": {"traces": {"endpoint": "http://other"}}},
            {"telemetry": {"logs": {"format": "text"}}},
            {"capacity": {"backlog": 7}},
        ):
            assert checksum() != checksum(**restarted)


def test_ingress_lets_streams_through() -> None:
    manifests = render(WAYS["everything"])
    annotations = only(manifests, "Ingress")["metadata"]["annotations"]
    assert annotations["nginx.ingress.kubernetes.io/proxy-buffering"] == "off"
    assert annotations["nginx.ingress.kubernetes.io/proxy-read-timeout"] == "1800"
    assert annotations["cert-manager.io/cluster-issuer"] == "letsencrypt"
    assert only(manifests, "HTTPRoute")["spec"]["rules"][0]["timeouts"] == {"request": "1800s"}


def test_other_ingress_classes_get_no_annotations_of_nginx() -> None:
    values = {
        "ingress": {"enabled": True, "hosts": ["a.b"], "className": "traefik"},
        "networkPolicy": {"enabled": False},
    }
    assert not only(render(values), "Ingress")["metadata"]["annotations"]


def test_scales_down_slowly() -> None:
    manifests = render(WAYS["everything"])
    assert "replicas" not in only(manifests, "Deployment")["spec"]
    scaler = only(manifests, "HorizontalPodAutoscaler")["spec"]
    assert scaler["behavior"]["scaleDown"]["stabilizationWindowSeconds"] == 300
    cpu, in_flight = scaler["metrics"]
    assert cpu["resource"]["target"]["averageUtilization"] == 70
    assert in_flight["pods"]["metric"]["name"] == "dragoman_in_flight_requests"


def test_secrets_arrive_as_they_are() -> None:
    manifests = render(WAYS["everything"])
    assert only(manifests, "Secret")["stringData"] == WAYS["everything"]["secrets"]["create"]
    pod = only(manifests, "Deployment")["spec"]["template"]["spec"]
    mounted = {mount["name"]: mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]}
    assert mounted == {"dragoman": "/etc/dragoman", "dragoman-secrets": "/run/secrets/dragoman", "ca": "/etc/ca"}
    sources = pod["volumes"][0]["projected"]["sources"]
    assert sources == [{"configMap": {"name": "translator"}}, {"secret": {"name": "tenants"}}]
