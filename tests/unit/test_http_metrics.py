"""Metrics and health of an HTTP server, and its notice before a stop, without a socket."""

from typing import Any

import orjson
import pytest
from prometheus_client import CollectorRegistry, Counter, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route, Router, WebSocketRoute
from starlette.websockets import WebSocket

from protolink_grpc import Agent, InvalidArgumentError
from protolink_grpc.edges.http.drain import Drain
from protolink_grpc.edges.http.health import Health
from protolink_grpc.edges.http.metrics import MAX_SERIES, OPERATION, Metrics, metrics_server
from protolink_grpc.edges.http.options import HttpOptions


async def get(app: Any, path: str, method: str = "GET", kind: str = "http") -> tuple[int, bytes]:
    scope: dict[str, Any] = {"type": kind, "path": path, "headers": [], "query_string": b"", "http_version": "1.1"}
    scope["asgi"] = {"version": "3.0", "spec_version": "2.4"}
    if kind == "http":
        scope["method"] = method
    else:
        scope["subprotocols"] = []
    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    async def receive() -> dict[str, Any]:
        return {"type": "http.request" if kind == "http" else "websocket.connect", "body": b"", "more_body": False}

    await app(scope, receive, send)
    return sent[0].get("status", 101), b"".join(each.get("body", b"") for each in sent)


async def task(request: Request) -> Response:
    return JSONResponse({"id": request.path_params["id"]})


async def rpc(request: Request) -> Response:
    request.scope[OPERATION] = "SendMessage"
    return Response(b"12345")


Series = tuple[str, frozenset[tuple[str, str]]]


def series(name: str, **labels: str) -> Series:
    return name, frozenset(labels.items())


def samples(metrics: Metrics) -> dict[Series, float]:
    """The values of the series, as Prometheus' own parser reads them."""
    families = text_string_to_metric_families(generate_latest(metrics.registry).decode())
    return {series(each.name, **each.labels): each.value for family in families for each in family.samples}


async def test_requests_are_counted_by_the_template_of_their_route() -> None:
    metrics = Metrics()
    app = metrics.count_requests(Router([Route("/tasks/{id}", task)]))
    for path in ("/tasks/1", "/tasks/2", "/nowhere", "/elsewhere"):
        await get(app, path)
    found = samples(metrics)
    assert found[series("plgrpc_http_requests_total", route="/tasks/{id}", method="GET", status="200")] == 2
    assert found[series("plgrpc_http_requests_total", route="unmatched", method="GET", status="404")] == 2
    assert b"/tasks/1" not in generate_latest(metrics.registry)


async def test_a_route_with_many_methods_says_which_one_it_was() -> None:
    metrics = Metrics()
    await get(metrics.count_requests(Router([Route("/", rpc, methods=["POST"])])), "/", "POST")
    found = samples(metrics)
    assert found[series("plgrpc_http_requests_total", route="SendMessage", method="POST", status="200")] == 1
    assert found[series("plgrpc_http_sent_bytes_total")] == 5


async def test_a_method_of_a_callers_own_making_is_no_label() -> None:
    metrics = Metrics()
    await get(metrics.count_requests(Router([])), "/", "BREW")
    assert b'method="OTHER"' in generate_latest(metrics.registry)
    assert b"BREW" not in generate_latest(metrics.registry)


async def test_a_histogram_ends_with_the_count_of_all() -> None:
    metrics = Metrics()
    for elapsed_s in (0.0005, 0.003, 0.003, 1000.0):
        metrics.count("/x", "GET", 200, elapsed_s)
    found = samples(metrics)
    name = "plgrpc_http_request_duration_seconds"
    labels = {"route": "/x", "method": "GET"}
    bucket = [found[series(f"{name}_bucket", **labels, le=le)] for le in ("0.001", "0.005", "300.0", "+Inf")]
    assert bucket == [1, 3, 3, 4]
    assert found[series(f"{name}_count", **labels)] == 4
    assert found[series(f"{name}_sum", **labels)] == pytest.approx(1000.0065)


async def test_a_stream_is_open_while_it_is_sent_and_has_no_duration() -> None:
    metrics = Metrics()
    seen: list[float] = []

    async def stream(request: Request) -> Response:
        async def events() -> Any:
            yield b"data: 1\n\n"
            seen.append(samples(metrics)[series("plgrpc_http_event_streams")])

        return StreamingResponse(events(), media_type="text/event-stream")

    await get(metrics.count_requests(Router([Route("/s", stream)])), "/s")
    assert seen == [1]
    assert samples(metrics)[series("plgrpc_http_event_streams")] == 0
    assert b"duration_seconds_count" not in generate_latest(metrics.registry)


async def test_a_stream_of_any_media_type_is_one_and_what_says_its_length_or_has_no_body_is_none() -> None:
    metrics = Metrics()

    async def stream(request: Request) -> Response:
        async def frames() -> Any:
            yield b"\0\0\0\0\0"

        return StreamingResponse(frames(), media_type="application/grpc-web+proto")

    async def whole(request: Request) -> Response:
        return Response(b"\x80\0\0\0\0", media_type="application/grpc-web+proto")

    async def nothing(request: Request) -> Response:
        return Response(status_code=204)

    app = metrics.count_requests(Router([Route("/stream", stream), Route("/whole", whole), Route("/nothing", nothing)]))
    for path in ("/stream", "/whole", "/nothing"):
        await get(app, path)
    found = samples(metrics)
    name = "plgrpc_http_request_duration_seconds_count"
    timed = [each for each in ("/stream", "/whole", "/nothing") if series(name, route=each, method="GET") in found]
    assert timed == ["/whole", "/nothing"]
    assert found[series("plgrpc_http_event_streams")] == 0


async def test_a_websocket_is_open_until_its_route_returns() -> None:
    metrics = Metrics()
    seen: list[float] = []

    async def socket(websocket: WebSocket) -> None:
        await websocket.accept()
        seen.append(samples(metrics)[series("plgrpc_http_websockets")])

    await get(metrics.count_requests(Router([WebSocketRoute("/ws", socket)])), "/ws", kind="websocket")
    assert (seen, samples(metrics)[series("plgrpc_http_websockets")]) == ([1], 0)


async def test_a_route_that_raises_is_not_in_flight_any_more() -> None:
    metrics = Metrics()

    async def broken(scope: Any, receive: Any, send: Any) -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await get(metrics.count_requests(broken), "/")
    assert samples(metrics)[series("plgrpc_http_requests_in_flight")] == 0


async def test_more_series_than_the_bound_become_one() -> None:
    metrics = Metrics()
    for number in range(MAX_SERIES + 500):
        metrics.count(f"/{number}", "GET", 200, None)
    assert samples(metrics)[series("plgrpc_http_requests_total", route="other", method="GET", status="200")] == 500


def test_rejections_and_numbers_of_others_are_shown() -> None:
    metrics = Metrics()
    metrics.count_rejection("slow_reader")
    metrics.count_rejection("slow_reader")
    metrics.gauge("active_tasks", "Tasks that work.", lambda: 7)
    found = samples(metrics)
    assert found[series("plgrpc_http_rejected_total", reason="slow_reader")] == 2
    assert found[series("plgrpc_active_tasks")] == 7


def test_a_number_is_shown_once_however_often_it_is_announced() -> None:
    metrics = Metrics()
    metrics.gauge("active_tasks", "Tasks that work.", lambda: 1)
    metrics.gauge("active_tasks", "Tasks that work.", lambda: 2)
    assert generate_latest(metrics.registry).count(b"\nplgrpc_active_tasks ") == 1
    assert samples(metrics)[series("plgrpc_active_tasks")] == 2


def test_the_metrics_have_the_documented_names_and_types() -> None:
    metrics = Metrics()
    metrics.count('/a"\\\n', "GET", 200, 0.1)
    metrics.count_rejection("x")
    metrics.gauge("log_records_left_out_total", "Records.", lambda: 2, kind="counter")
    families = [
        line.split()[2:]
        for line in generate_latest(metrics.registry).decode().splitlines()
        if line.startswith("# TYPE")
    ]
    assert families == [
        ["plgrpc_http_requests_total", "counter"],
        ["plgrpc_http_request_duration_seconds", "histogram"],
        ["plgrpc_http_rejected_total", "counter"],
        ["plgrpc_http_requests_in_flight", "gauge"],
        ["plgrpc_http_event_streams", "gauge"],
        ["plgrpc_http_websockets", "gauge"],
        ["plgrpc_http_sent_bytes_total", "counter"],
        ["plgrpc_log_records_left_out_total", "counter"],
    ]
    assert samples(metrics)[series("plgrpc_http_requests_total", route='/a"\\\n', method="GET", status="200")] == 1
    assert b"_created" not in generate_latest(metrics.registry)


def test_metrics_of_the_application_are_shown_with_those_of_each_server() -> None:
    shared = CollectorRegistry()
    orders = Counter("orders", "Orders that were placed.", registry=shared)
    servers = [Metrics(shared), Metrics(shared)]
    servers[0].count("/x", "GET", 200, None)
    orders.inc(3)
    counted = series("plgrpc_http_requests_total", route="/x", method="GET", status="200")
    assert [samples(each)[series("orders_total")] for each in servers] == [3, 3]
    assert [counted in samples(each) for each in servers] == [True, False]


def test_what_is_no_registry_is_refused() -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        Agent("a", http=HttpOptions(metrics_registry=object()))  # type: ignore[arg-type]
    assert caught.value.field == "http.metrics_registry"


async def test_the_metrics_have_a_route() -> None:
    metrics = Metrics()
    metrics.count("/x", "GET", 200, 0.1)
    status, body = await get(Router([metrics.route()]), "/metrics")
    assert (status, body) == (200, generate_latest(metrics.registry))


def test_metrics_have_a_server_of_their_own_only_where_that_is_asked_for() -> None:
    assert metrics_server(Metrics(), HttpOptions()) is None
    server = metrics_server(Metrics(), HttpOptions(listen="127.0.0.1:1", metrics_listen="127.0.0.1:0"))
    assert server is not None
    assert server.url == "http://127.0.0.1:0"


def health(drain: Drain, obstacle: str = "") -> Router:
    return Router(Health(drain, lambda: {"transport": "http", "status": "mine"}, lambda: obstacle).routes())


async def test_a_server_that_should_get_work_is_ready() -> None:
    status, body = await get(health(Drain()), "/readyz")
    assert (status, orjson.loads(body)) == (200, {"transport": "http", "status": "ready", "ready": True})


async def test_a_draining_server_is_alive_and_not_ready() -> None:
    drain = Drain()
    app = health(drain)
    drain.begin()
    assert (await get(app, "/healthz"))[0] == 200
    status, body = await get(app, "/readyz")
    assert (status, orjson.loads(body)["status"]) == (503, "draining")


async def test_an_obstacle_keeps_a_server_from_being_ready() -> None:
    status, body = await get(health(Drain(), "starting"), "/readyz")
    assert (status, orjson.loads(body)["status"]) == (503, "starting")


def test_who_watches_a_drain_is_told_once_per_time() -> None:
    drain = Drain()
    told: list[int] = []
    drain.watch(lambda: told.append(1))
    drain.begin()
    drain.begin()
    assert told == [1]
    drain.clear()
    drain.begin()
    assert told == [1, 1]
