"""The counters of a service, in Prometheus' text format."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Meters:
    """Counters of one service, in a registry of its own."""

    def __init__(self, waiting: Callable[[], int]):
        self._registry = CollectorRegistry()
        names = ("verb", "status")
        self._requests = Counter("headwise_requests", "Requests by verb and status.", names, registry=self._registry)
        self._seconds = Histogram("headwise_seconds", "Time from request to answer.", ["verb"], registry=self._registry)
        sizes = (1, 2, 4, 8, 16, 32, 64, 128)
        self._batch = Histogram("headwise_batch_texts", "Texts in a batch.", buckets=sizes, registry=self._registry)
        gauge = Gauge("headwise_queue", "Requests that wait.", registry=self._registry)
        gauge.set_function(waiting)

    def answered(self, verb: str, status: int, seconds: float) -> None:
        self._requests.labels(verb, str(status)).inc()
        self._seconds.labels(verb).observe(seconds)

    def together(self, texts: int) -> None:
        self._batch.observe(texts)

    def text(self) -> bytes:
        return generate_latest(self._registry)
