"""What docker/ gives Prometheus and Grafana: files that they take, and queries that name what relet exports."""

from __future__ import annotations

import json
import re
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
import redis
import yaml
from prometheus_client import CollectorRegistry

from relet import Pool, PoolExhausted
from relet.cli.commands.metrics import metrics
from relet.metrics import PATIENCE_S, PoolsCollector, instrument
from tests.containers.compose import FILE, ROOT, Service, services
from tests.helpers import take
from tests.metrics.page import Samples, samples_of
from tests.waiting.drivers import ONE_SERVER

METRICS = services("metrics")
PROMETHEUS, GRAFANA = METRICS["prometheus"], METRICS["grafana"]
CONFIG: dict[str, Any] = yaml.safe_load((ROOT / "docker" / "prometheus.yml").read_text("utf-8"))
DASHBOARD: dict[str, Any] = json.loads((ROOT / "docker" / "grafana" / "dashboards" / "relet.json").read_text("utf-8"))
PANELS: list[dict[str, Any]] = DASHBOARD["panels"]
QUERIES = [target["expr"] for panel in PANELS for target in panel["targets"]]
VARIABLES = {variable["name"]: variable for variable in DASHBOARD["templating"]["list"]}

LABELS_OF = re.compile(r"\{([^{}]*)\}")
GROUPED_BY = re.compile(r"\bby \(([^)]*)\)")

each_panel = pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])


def named_in(query: str) -> set[str]:
    """The metrics that a query names."""
    return set(re.findall(r"\brelet_\w+", query))


def mounted(service: Service) -> dict[str, Path]:
    """The files and folders of docker/ that the container has, by their path there."""
    found = {}
    for text in service.settings["volumes"]:
        ours, theirs, mode = text.split(":")
        assert mode == "ro"
        found[theirs] = (FILE.parent / ours).resolve()
        assert found[theirs].exists()
    return found


def in_container(service: Service, path: str) -> Path:
    """Which file of docker/ is at that path in the container."""
    for theirs, ours in mounted(service).items():
        if PurePosixPath(path).is_relative_to(theirs):
            return ours / PurePosixPath(path).relative_to(theirs)
    raise AssertionError(f"nothing is mounted at {path}")


@pytest.fixture
def exported(client: redis.Redis, pool: Pool) -> Samples:
    """Every sample that relet exports, of a pool in which everything has happened once."""
    registry = CollectorRegistry()
    registry.register(PoolsCollector(lambda: client, pool.name, namespace=pool.namespace))
    reported = instrument(pool, registry=registry)
    pool.add("a")
    lease = pool.acquire()
    with pytest.raises(PoolExhausted):
        pool.acquire(timeout=0.01)
    lease.release()
    reported.ended(_waited(pool), 1, None)
    take(pool).release()
    return samples_of(registry)


def _waited(pool: Pool) -> Any:
    from relet.observing import Asked

    asked = Asked(pool.name, may_wait=True)
    asked.waited = True
    return asked


@ONE_SERVER
def test_the_queries_name_what_is_exported_and_all_of_it(exported: Samples) -> None:
    names = {name for name, *_ in exported}
    asked = {name for query in QUERIES for name in named_in(query)}
    assert asked == names


@each_panel
def test_a_query_names_metrics_and_known_labels_alone(panel: dict[str, Any]) -> None:
    for target in panel["targets"]:
        query = target["expr"]
        assert named_in(query)
        for labels in LABELS_OF.findall(query):
            assert {label.strip().partition("=")[0] for label in labels.split(",")} <= {"pool", "state"}
            assert 'pool=~"$pool"' in labels
        grouped = {label.strip() for labels in GROUPED_BY.findall(query) for label in labels.split(",")} - {"le"}
        assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) == grouped
        assert query.count("(") == query.count(")")
        assert set(re.findall(r"\$(\w+)", query)) <= {*VARIABLES, "__rate_interval"}


@each_panel
def test_a_counter_is_read_as_a_rate(panel: dict[str, Any]) -> None:
    for target in panel["targets"]:
        for name in named_in(target["expr"]):
            is_counter = name.endswith(("_total", "_bucket", "_sum", "_count"))
            assert is_counter == bool(re.search(rf"\b(rate|increase)\({name}\b", target["expr"]))


def test_the_panels_have_ids_of_their_own_and_do_not_overlap() -> None:
    assert len({panel["id"] for panel in PANELS}) == len(PANELS)
    taken: set[tuple[int, int]] = set()
    for panel in PANELS:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells


def test_the_variables_are_those_that_are_used() -> None:
    text = json.dumps(PANELS)
    assert set(VARIABLES) == {"datasource", "pool"}
    assert all(re.search(rf"\$\{{?{name}\b", text) for name in VARIABLES)
    assert named_in(VARIABLES["pool"]["definition"]) == {"relet_pool_up"}
    assert VARIABLES["pool"]["query"]["query"] == VARIABLES["pool"]["definition"]


def test_prometheus_scrapes_where_relet_metrics_serves() -> None:
    options = {option.name: option.default for option in metrics.params}
    (job,) = [job for job in CONFIG["scrape_configs"] if job["job_name"] == "relet"]
    assert job["static_configs"] == [{"targets": [f"{options['host']}:{options['port']}"]}]
    assert float(CONFIG["global"]["scrape_timeout"].removesuffix("s")) > PATIENCE_S


def test_prometheus_reads_its_file() -> None:
    words = dict(word.split("=", 1) for word in PROMETHEUS.words)
    assert in_container(PROMETHEUS, words["--config.file"]) == ROOT / "docker" / "prometheus.yml"
    assert words["--storage.tsdb.path"] == PROMETHEUS.settings["tmpfs"]


def test_grafana_finds_prometheus_and_the_dashboard() -> None:
    provisioning = in_container(GRAFANA, "/etc/grafana/provisioning")
    (source,) = yaml.safe_load((provisioning / "datasources" / "prometheus.yaml").read_text("utf-8"))["datasources"]
    words = dict(word.split("=", 1) for word in PROMETHEUS.words)
    assert source["url"] == f"http://{words['--web.listen-address']}"
    assert (source["type"], source["isDefault"]) == ("prometheus", True)
    (provider,) = yaml.safe_load((provisioning / "dashboards" / "relet.yaml").read_text("utf-8"))["providers"]
    dashboards = in_container(GRAFANA, provider["options"]["path"])
    assert [file.name for file in dashboards.iterdir()] == ["relet.json"]
    home = GRAFANA.settings["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert in_container(GRAFANA, home).is_file()


@pytest.mark.parametrize("service", METRICS.values(), ids=METRICS)
def test_it_listens_for_this_machine_alone(service: Service) -> None:
    settings = service.settings
    assert settings["network_mode"] == "host"
    environment = settings.get("environment", {})
    words = dict(word.split("=", 1) for word in service.words)
    address = words.get("--web.listen-address") or (
        f"{environment['GF_SERVER_HTTP_ADDR']}:{environment['GF_SERVER_HTTP_PORT']}"
    )
    assert address.startswith("127.0.0.1:")
    assert f" http://{address}/" in settings["healthcheck"]["test"]
    assert address.rpartition(":")[2] in re.findall(r":(\d{4})\b", FILE.read_text("utf-8").partition("\nname:")[0])
