"""Serve the content of the pages as JSON: /api/v1/flows and /api/v1/rows, with the pages' login."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from app.failovers import answers
from app.inspection import mirrors, watch
from app.links import MIRROR
from app.tables import narrowed
from metrics.partition_status import Status
from metrics.trend import Point, unhealthy_since
from mirror.lag.failover import FailoverReadiness
from mirror.lag.flow_summary import FlowSummary, summaries, worst_first
from mirror.lag.text import json_text, poll_fields

FILTERS = ("source", "target", "group", "topic", "partition", "status", "search")


async def flows(request: Request) -> Response:
    """Return every flow: status, since when it has this status, records at risk, rates, failover check, last hour."""
    refusal = _refusal(request.query_params, ())
    MIRROR.set(request.query_params.get("mirror", ""))
    return refusal if refusal is not None else await run_in_threadpool(_flows)


async def rows(request: Request) -> Response:
    """Return the rows that the Partitions page shows for the same parameters, worst first."""
    refusal = _refusal(request.query_params, (*FILTERS, "only_lagging"))
    MIRROR.set(request.query_params.get("mirror", ""))
    return refusal if refusal is not None else await run_in_threadpool(_rows, request.query_params)


ROUTES = (Route("/api/v1/flows", flows), Route("/api/v1/rows", rows))


def flow_content(flow: FlowSummary, points: Sequence[Point], found: FailoverReadiness) -> dict[str, Any]:
    """Return one flow as the API's JSON; unknown values are null."""
    began = unhealthy_since(points) if flow.worst is not Status.OK else None
    return {
        "name": flow.name,
        "source": flow.source,
        "target": flow.target,
        "status": flow.worst.name,
        "ill_since": None if began is None else {"time": began.time_s, "is_seen": began.is_seen},
        "topic_partitions": flow.partitions,
        "statuses": {status.name: count for status, count in sorted(flow.statuses.items(), reverse=True)},
        "fresh": flow.fresh,
        "unknown_topic_partitions": flow.unknown,
        "records_waiting": None if flow.unknown == flow.partitions else flow.lag,
        "waits_seconds": flow.lag_seconds,
        "written_per_second": flow.in_per_s,
        "replicated_per_second": flow.out_per_s,
        "look_first_at": {"topic": flow.first.topic, "partition": flow.first.partition, "reason": flow.first.reason},
        "fail_over": found.plain(),
        "last_hour": [{**point._asdict(), "status": point.status.name} for point in points],
    }


def _flows() -> Response:
    snapshot = watch().latest()
    found = summaries(snapshot)
    trend = watch().trend
    content = [
        flow_content(flow, trend.of(flow.name), answer)
        for flow, answer in zip(found, answers(snapshot, found), strict=True)
    ]
    return JSONResponse({**poll_fields(snapshot), "flows": content})


def _rows(given: Mapping[str, str]) -> Response:
    snapshot = watch().latest()
    chosen = narrowed(
        snapshot.rows,
        **{name: given.get(name, "") for name in FILTERS},
        only_lagging=given.get("only_lagging", "false").lower() == "true",
    )
    return Response(json_text(snapshot, worst_first(chosen)), media_type="application/json")


def _refusal(given: Mapping[str, str], known: Sequence[str]) -> Response | None:
    """Return an error response for unknown parameters or statuses; None if there are none."""
    known = (*known, "mirror")
    strange = sorted(set(given) - set(known))
    if strange:
        said = f"unknown parameter {', '.join(strange)}; known: {', '.join(known)}"
        return JSONResponse({"error": said}, status_code=400)
    mirror = given.get("mirror", "")
    if mirror and mirror not in mirrors():
        said = f"mirror={json.dumps(mirror)} is unknown; known: {', '.join(mirrors())}"
        return JSONResponse({"error": said}, status_code=400)
    status = given.get("status", "")
    if status and status not in Status.__members__:
        said = f"status={json.dumps(status)} is invalid. Valid: {', '.join(Status.__members__)}"
        return JSONResponse({"error": said}, status_code=400)
    return None
