"""Another chart puts the sidecar into its own pods."""

from pathlib import Path

import helm_python
import kubernetes_validate
import yaml

from tests.helm.chart import chart, only

CHART_YAML = """\
apiVersion: v2
name: agent
version: 1.0.0
dependencies: [{name: dragoman, version: 0.1.0, repository: "file://../dragoman"}]
"""

VALUES = """\
dragoman:
  mode: sidecar
  image: {repository: registry.example.org/dragoman}
  config:
    upstreams: [{name: claude, protocol: messages, base_url: "https://api.anthropic.com"}]
  secrets: {existing: agent}
"""

DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec:
      initContainers:
        {{- include "dragoman.sidecar" .Subcharts.dragoman | nindent 8 }}
      containers:
        - {name: agent, image: agent, env: [{name: ANTHROPIC_BASE_URL, value: "http://127.0.0.1:8080"}]}
      volumes:
        {{- include "dragoman.sidecarVolumes" .Subcharts.dragoman | nindent 8 }}
"""


def test_a_chart_that_depends_on_it_gets_the_sidecar(tmp_path: Path) -> None:
    agent = tmp_path / "agent"
    agent.joinpath("templates").mkdir(parents=True)
    agent.joinpath("charts").mkdir()
    agent.joinpath("Chart.yaml").write_text(CHART_YAML)
    agent.joinpath("values.yaml").write_text(VALUES)
    agent.joinpath("templates", "deployment.yaml").write_text(DEPLOYMENT)
    chart().save(agent / "charts")

    texts = helm_python.Chart.load(agent).render(name="r", namespace="agents")
    manifests = [
        one for name, text in texts.items() if name.endswith(".yaml") for one in yaml.safe_load_all(text) if one
    ]

    assert sorted(manifest["kind"] for manifest in manifests) == ["ConfigMap", "Deployment"]
    deployment = only(manifests, "Deployment")
    kubernetes_validate.validate(deployment, "1.30", strict=True)
    pod = deployment["spec"]["template"]["spec"]
    (sidecar,) = pod["initContainers"]
    assert sidecar["restartPolicy"] == "Always"
    assert sidecar["image"] == "registry.example.org/dragoman:0.1.0"
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    assert {mount["name"] for mount in sidecar["volumeMounts"]} == volumes.keys()
    assert volumes["dragoman"]["projected"]["sources"] == [{"configMap": {"name": "r-dragoman"}}]
    assert volumes["dragoman-secrets"]["secret"]["secretName"] == "agent"
    assert only(manifests, "ConfigMap")["metadata"]["name"] == "r-dragoman"
