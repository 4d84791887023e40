"""What brings the dashboard up for a look fits together: no daemon is here to try it with."""

import re
from urllib.parse import urlsplit

import yaml

from proxy.settings.snapshot import ADMIN_LISTEN
from tests.dashboard.sources import CONFIG, GRAFANA, PROMETHEUS, Json
from tests.dashboard.test_rules import promtool

PINNED = re.compile(r"[\w./-]+:v?\d+\.\d+\.\d+")


def services() -> dict[str, Json]:
    return yaml.safe_load((CONFIG / "compose.yaml").read_text("utf-8"))["services"]


def datasources() -> dict[str, Json]:
    told = yaml.safe_load((GRAFANA / "provisioning" / "datasources" / "prometheus.yaml").read_text("utf-8"))
    return {source["type"]: source for source in told["datasources"]}


def port(address: str) -> int | None:
    return urlsplit(address if "//" in address else f"//{address}").port


def test_images_are_pinned_or_built_here_and_mounts_exist() -> None:
    for name, service in services().items():
        if "build" in service:
            assert (CONFIG / service["build"] / "Dockerfile").is_file()
        else:
            assert PINNED.fullmatch(service["image"]), name
        for mount in service.get("volumes", ()):
            source, _, mode = mount.split(":")
            assert (CONFIG / source).exists(), mount
            assert mode == "ro"


def test_prometheus_takes_its_configuration_and_scrapes_the_proxy() -> None:
    ended = promtool("check", "config", PROMETHEUS / "prometheus.yml")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    (scraped,) = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text("utf-8"))["scrape_configs"]
    assert scraped["static_configs"] == [{"targets": [f"{ADMIN_LISTEN.host}:{ADMIN_LISTEN.port}"]}]


def test_grafana_finds_both_sources_and_the_dashboard() -> None:
    listens = {
        name.removeprefix("--"): value
        for name, _, value in (a.partition("=") for a in services()["prometheus"]["command"])
    }
    found = datasources()
    assert port(found["prometheus"]["url"]) == port(listens["web.listen-address"])
    tempo = yaml.safe_load((GRAFANA / "tempo.yml").read_text("utf-8"))
    assert port(found["tempo"]["url"]) == tempo["server"]["http_listen_port"]
    (exemplars,) = found["prometheus"]["jsonData"]["exemplarTraceIdDestinations"]
    assert exemplars == {"name": "trace_id", "datasourceUid": found["tempo"]["uid"]}
    (provider,) = yaml.safe_load((GRAFANA / "provisioning" / "dashboards" / "dragoman.yaml").read_text("utf-8"))[
        "providers"
    ]
    mounted = [mount.split(":")[1] for mount in services()["grafana"]["volumes"]]
    assert f"{provider['options']['path']}/dragoman.json" in mounted
