"""Render the chart with Helm's own library, and what the tests ask of the result.

`python -m tests.helm.chart` writes the golden files anew; read what changed before you commit it.
"""

from functools import cache
from pathlib import Path
from typing import Any

import helm_python
import yaml

ROOT = Path(__file__).parents[2]
CHART = ROOT / "helm" / "dragoman"
GOLDEN = Path(__file__).parent / "golden"

# Made of the files of `config`, which test_files.py compares; they would be in the golden files once more.
_FROM_CONFIG = {"dashboards.yaml", "prometheusrule.yaml"}

Manifest = dict[str, Any]
Values = dict[str, Any]

# The files of values in `values/`, each a way to use the chart.
WAYS: dict[str, Values] = {
    file.stem: yaml.safe_load(file.read_text("utf-8"))
    for file in sorted(Path(__file__).parent.joinpath("values").glob("*.yaml"))
}


@cache
def chart() -> helm_python.Chart:
    return helm_python.Chart.load(CHART)


def render_texts(values: Values) -> dict[str, str]:
    """By template, those that render to something. Raises helm_python.HelmError."""
    texts = chart().render(values, name="dragoman", namespace="llm")
    return {name.removeprefix("dragoman/templates/"): text for name, text in texts.items() if text.strip()}


def render(values: Values) -> list[Manifest]:
    """All objects, in the order of their templates' names."""
    texts = sorted(render_texts(values).items())
    return [one for name, text in texts if name.endswith(".yaml") for one in yaml.safe_load_all(text) if one]


def only(manifests: list[Manifest], kind: str) -> Manifest:
    """The one object of a kind."""
    (found,) = [manifest for manifest in manifests if manifest["kind"] == kind]
    return found


def pods(manifests: list[Manifest]) -> list[Manifest]:
    """The specs of all pods, whatever makes them."""
    specs = [m["spec"] if m["kind"] == "Pod" else m.get("spec", {}).get("template", {}).get("spec") for m in manifests]
    return [spec for spec in specs if spec]


def configuration(manifests: list[Manifest]) -> str:
    """The text of the dragoman.yaml that the pods read."""
    text: str = only([m for m in manifests if "dragoman.yaml" in m.get("data", {})], "ConfigMap")["data"][
        "dragoman.yaml"
    ]
    return text


def golden(values: Values) -> str:
    """What a golden file holds: each template's text, in the order of their names."""
    own = sorted((name, text) for name, text in render_texts(values).items() if name not in _FROM_CONFIG)
    return "".join(f"# {name}\n{text.strip()}\n\n" for name, text in own)


def main() -> None:
    GOLDEN.mkdir(exist_ok=True)
    for way, values in WAYS.items():
        GOLDEN.joinpath(f"{way}.yaml").write_text(golden(values), "utf-8")


if __name__ == "__main__":
    main()
