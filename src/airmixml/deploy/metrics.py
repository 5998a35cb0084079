"""Whether a server is well, and its numbers, for monitoring on its own machine: no name, no key and no address.

``/healthz`` answers ``ok`` (200), or why not (503); ``/metrics`` is text in the exposition format of Prometheus, 0.0.4.
Both are counts of all workers together, so that no reader of the port learns of any one of them.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Final

from airmixml.deploy.endpoint import HOST, DeployError
from airmixml.deploy.server_process import Status
from airmixml.messages import reason

TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"
_GAUGE, _COUNTER = "gauge", "counter"
METRICS: Final = {
    "workers_expected": (_GAUGE, "Workers of the contract."),
    "workers_present": (_GAUGE, "Workers that were heard and are not silent."),
    "workers_dropped": (_GAUGE, "Workers that the round goes on without."),
    "round": (_GAUGE, "Number of the round under way."),
    "rounds_done": (_GAUGE, "Rounds whose sums are complete."),
    "rounds_planned": (_GAUGE, "Rounds that the run needs."),
    "messages_received_total": (_COUNTER, "Messages that arrived."),
    "bytes_received_total": (_COUNTER, "Bytes of these messages."),
    "messages_refused_total": (_COUNTER, "Messages that were not accepted."),
    "worker_refusals_total": (_COUNTER, "Messages in which a worker says why it does not go on."),
    "warnings_total": (_COUNTER, "Sums that workers who keep to the contract do not have."),
    "budget_spent_ratio": (_GAUGE, "Largest share of its budget that a worker has spent."),
    "uptime_seconds": (_GAUGE, "Seconds since this process began the run or took it up again."),
    "released": (_GAUGE, "Whether the model is written (1) or not (0)."),
}


def metrics_text(numbers: dict[str, float]) -> str:
    """Return these numbers, by the names of ``METRICS``, as Prometheus reads them."""
    return "".join(
        f"# HELP airmix_{name} {about}\n# TYPE airmix_{name} {kind}\nairmix_{name} {float(numbers[name]):.15g}\n"
        for name, (kind, about) in METRICS.items()
    )


@contextmanager
def serving_metrics(watch: Status, port: int) -> Iterator[int]:
    """Serve both pages to this machine in another thread, until the block ends; yield the port (0: a free one)."""

    class Pages(BaseHTTPRequestHandler):
        server_version, sys_version, timeout = "airmix", "", 10.0

        def do_GET(self) -> None:
            code, content = HTTPStatus.OK, ""
            match self.path.partition("?")[0]:
                case "/metrics":
                    content = metrics_text(watch.numbers())
                case "/healthz":
                    problem = watch.problem()
                    content = f"{problem or 'ok'}\n"
                    code = HTTPStatus.SERVICE_UNAVAILABLE if problem else code
                case _:
                    code, content = HTTPStatus.NOT_FOUND, "here are /healthz and /metrics\n"
            body = content.encode()
            self.send_response(code)
            self.send_header("Content-Type", TEXT)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        do_HEAD = do_GET

        def log_message(self, format: str, *_values: object) -> None:
            """Write nothing: the log is the run's."""

    try:
        server = ThreadingHTTPServer((HOST, port), Pages)
    except (OSError, OverflowError) as problem:
        why = reason(problem) if isinstance(problem, OSError) else "must be from 1 to 65535"
        raise DeployError(f"--status-port = {port}: cannot be used ({why}); give another port of {HOST}") from None
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
    thread.start()
    try:
        yield int(server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
