"""/api/v1: programs get what the pages show; what is not known is null, what is not understood is refused."""

from __future__ import annotations

import asyncio
import json

import pytest
from starlette.requests import Request

from app import inspection
from app.api import ROUTES
from app.watch import Watch
from metrics.partition_status import Status
from mirror.config.given import Given
from mirror.config.settings import Mirror, Settings
from mirror.lag.snapshot import Snapshot
from tests.unit.test_app import STALLED, Polls, consumer, flow

ROWS = (flow(), STALLED, consumer())


@pytest.fixture
def get(monkeypatch):
    """Ask the API as its server does, without one."""
    watch = Watch(Polls(Snapshot(time_s=0.0, rows=ROWS, clusters=(("a", True), ("b", True)))), every_s=3600)
    settings = Settings(
        flows=(), heartbeat_flows=(), mirror=Mirror(metrics_listen=("127.0.0.1", 1)), ignored=(), ignored_why={}
    )
    inspected = inspection.Inspected(Given("mirror", "mirror.properties", settings), watch)
    monkeypatch.setattr(inspection, "MIRRORS", {"mirror": inspected})

    def asked(address):
        path, _, query = address.partition("?")
        (route,) = (route for route in ROUTES if route.path == path)
        scope = {"type": "http", "method": "GET", "path": path, "query_string": query.encode(), "headers": []}
        answer = asyncio.run(route.endpoint(Request(scope)))
        return answer.status_code, json.loads(answer.body)

    return asked


def test_flows(get):
    code, answer = get("/api/v1/flows")
    assert code == 200
    (found,) = answer["flows"]
    assert answer["clusters"] == {"a": True, "b": True}
    assert (found["name"], found["status"], found["records_waiting"], found["waits_seconds"]) == (
        "a->b",
        "STALL",
        45,
        900.0,
    )
    assert found["look_first_at"] == {"topic": "payments", "partition": 3, "reason": "stalled at offset 5 for 45 s"}
    assert found["statuses"] == {"STALL": 1, "OK": 1}
    assert found["written_per_second"] is None
    assert found["fail_over"]["answer"] == "GO WITH LOSS"
    assert found["ill_since"]["is_seen"] is False
    assert [point["status"] for point in found["last_hour"]] == ["STALL"]


@pytest.mark.parametrize(
    ("query", "groups"),
    [
        ("", ["a->b", "shop", "a->b"]),
        ("?only_lagging=true", ["a->b", "shop"]),
        ("?status=STALL", ["a->b"]),
        ("?source=a&target=b&topic=a.orders&partition=0", ["a->b"]),
        ("?search=SHO", ["shop"]),
    ],
)
def test_rows_as_the_page_lag_chooses_them(get, query, groups):
    _, answer = get(f"/api/v1/rows{query}")
    assert [row["group"] for row in answer["rows"]] == groups


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/api/v1/rows?topc=orders", "unknown parameter topc; known: source, target"),
        ("/api/v1/flows?topic=orders", "unknown parameter topic; known: mirror"),
        ("/api/v1/rows?mirror=other", 'mirror="other" is unknown; known: mirror'),
        ("/api/v1/rows?status=bad", f'status="bad" is invalid. Valid: {", ".join(Status.__members__)}'),
    ],
)
def test_an_invalid_request_returns_400_and_names_its_fault(get, path, said):
    code, answer = get(path)
    assert code == 400
    assert answer["error"].startswith(said)
