"""Ready: /readyz, /healthz and /metrics of the driver.

Ready means that a batch would be matched by an index at a known epoch, that the topics exist and
that the query runs. Until then /readyz answers 503 with the step that is being waited for.
"""

from __future__ import annotations

import logging
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from streaming.metrics import Metrics

_log = logging.getLogger(__name__)


class Ready:
    """What the driver is waiting for; '' once it is ready."""

    def __init__(self) -> None:
        self._waiting_for = "the start"

    @property
    def waiting_for(self) -> str:
        """What stands between now and the first event."""
        return self._waiting_for

    @waiting_for.setter
    def waiting_for(self, step: str) -> None:
        self._waiting_for = step
        _log.info("%s", f"waiting for {step}" if step else "ready")

    @property
    def is_ready(self) -> bool:
        """Whether events are being matched."""
        return not self.waiting_for


def serve(host: str, port: int, ready: Ready, metrics: Metrics) -> ThreadingHTTPServer:
    """Answer in a thread until `shutdown` is called on what is returned."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            """Answer one of three paths."""
            if self.path == "/metrics":
                self._answer(200, generate_latest(metrics.registry), CONTENT_TYPE_LATEST)
            elif self.path == "/healthz":
                self._answer(200, b"alive\n")
            elif self.path == "/readyz":
                waiting = ready.waiting_for
                self._answer(503 if waiting else 200, f"{waiting or 'ready'}\n".encode())
            else:
                self._answer(404, b"there are /metrics, /readyz and /healthz\n")

        def _answer(self, code: int, body: bytes, kind: str = "text/plain; charset=utf-8") -> None:
            self.send_response(code)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Probes every second are no news."""

    server = ThreadingHTTPServer((host, port), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, name="http", daemon=True).start()
    return server
