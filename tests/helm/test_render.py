"""Every way to use the chart gives objects that Kubernetes takes and a restricted cluster admits."""

from pathlib import Path

import helm_python
import kubernetes_validate
import pytest
import yaml

from proxy.settings import load
from tests.helm.chart import CHART, GOLDEN, WAYS, Manifest, Values, configuration, golden, only, pods, render

# The oldest that the chart takes, the one that made preStop's sleep stable, and the newest that schemas are known of.
KUBERNETES = ["1.30", "1.34", "1.37"]
# Kinds of the Prometheus operator and the Gateway API, which are not Kubernetes' own.
FOREIGN = {"ServiceMonitor", "PodMonitor", "PrometheusRule", "HTTPRoute"}

ways = pytest.mark.parametrize("way", WAYS)


@ways
def test_renders_as_before(way: str) -> None:
    assert golden(WAYS[way]) == GOLDEN.joinpath(f"{way}.yaml").read_text("utf-8"), "see tests/helm/chart.py"


def test_no_golden_file_is_left_over() -> None:
    assert {file.stem for file in GOLDEN.iterdir()} == WAYS.keys()


@ways
def test_lints(way: str) -> None:
    report = helm_python.lint(CHART, WAYS[way])
    assert report["errors"] == []
    assert [message["error"] for message in report["messages"]] == ["icon is recommended"]


@ways
@pytest.mark.parametrize("version", KUBERNETES)
def test_keeps_to_the_schemas_of_kubernetes(way: str, version: str) -> None:
    own = [manifest for manifest in render(WAYS[way]) if manifest["kind"] not in FOREIGN]
    for manifest in own:
        kubernetes_validate.validate(manifest, version, strict=True)


def test_schemas_would_find_a_mistake() -> None:
    deployment = only(render({}), "Deployment")
    deployment["spec"]["template"]["spec"]["containers"][0]["lifecycle"]["preStop"]["sleep"]["second"] = 1
    with pytest.raises(kubernetes_validate.ValidationError, match="second"):
        kubernetes_validate.validate(deployment, KUBERNETES[0], strict=True)


@ways
def test_pods_are_restricted(way: str) -> None:
    """The restricted level of the Pod Security Standards, and what else operations.md 7 asks for."""
    for pod in pods(render(WAYS[way])):
        assert pod["securityContext"] == {
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "runAsGroup": 65532,
            "seccompProfile": {"type": "RuntimeDefault"},
        }
        assert pod["automountServiceAccountToken"] is False
        assert pod["enableServiceLinks"] is False
        assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys()
        for container in [*pod["containers"], *pod.get("initContainers", [])]:
            context = container["securityContext"]
            assert context["allowPrivilegeEscalation"] is False
            assert context["readOnlyRootFilesystem"] is True
            assert context["capabilities"] == {"drop": ["ALL"]}
            assert "memory" in container["resources"]["limits"]
            assert "cpu" not in container["resources"]["limits"]


@ways
def test_objects_are_named_and_labelled(way: str) -> None:
    for manifest in render(WAYS[way]):
        labels = manifest["metadata"]["labels"]
        assert manifest["metadata"]["namespace"] == "llm"
        assert labels["app.kubernetes.io/name"] == "dragoman"
        assert labels["app.kubernetes.io/instance"] == "dragoman"
        assert labels["app.kubernetes.io/managed-by"] == "Helm"


@ways
def test_dragoman_takes_its_configuration(way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manifests = render(WAYS[way])
    if WAYS[way].get("existingConfigMap"):
        assert not any("dragoman.yaml" in manifest.get("data", {}) for manifest in manifests)
        return
    secrets = dict.fromkeys(("anthropic", "pepper", "admin-token", "carrier"), "0" * 64)
    for name, secret in secrets.items():
        tmp_path.joinpath(name).write_text(secret)
    text = configuration(manifests).replace("/run/secrets/dragoman", str(tmp_path))
    folder = tmp_path / "configuration"
    folder.mkdir()
    folder.joinpath("dragoman.yaml").write_text(text, "utf-8")
    settings = load(folder, {"OPENAI_API_KEY": "sk"})
    gateway = WAYS[way].get("mode", "gateway") == "gateway"
    assert settings.listen.is_loopback is not gateway
    assert (settings.tenants is None) is not gateway
    assert settings.admin_listen.port == 9090


def test_values_of_the_configuration_arrive_as_they_are() -> None:
    config: Values = {
        "upstreams": [{"name": "a", "protocol": "chat", "base_url": "http://a"}],
        "models": [{"match": "{{ .Release.Name }}-*", "upstream": "a"}],
        "tenants": [{"name": "t", "limits": {"tpm": 123456789}, "metadata": {"code": "0123", "yes": "no", "e": "1e3"}}],
    }
    written = yaml.safe_load(configuration(render({"config": config})))
    assert {key: written[key] for key in config} == config


def test_selects_its_own_pods_only() -> None:
    """The test's pod belongs to the release, too, but serves nobody."""
    manifests = render(WAYS["everything"])
    selector: Manifest = only(manifests, "Service")["spec"]["selector"]
    deployment, test = only(manifests, "Deployment"), only(manifests, "Pod")
    assert selector.items() <= deployment["spec"]["template"]["metadata"]["labels"].items()
    assert not selector.items() <= test["metadata"]["labels"].items()
    assert deployment["spec"]["selector"]["matchLabels"] == selector
    assert only(manifests, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"] == selector
    assert only(manifests, "NetworkPolicy")["spec"]["podSelector"]["matchLabels"] == selector
    assert only(manifests, "ServiceMonitor")["spec"]["selector"]["matchLabels"].items() <= (
        only(manifests, "Service")["metadata"]["labels"].items()
    )
