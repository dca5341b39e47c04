"""Many clients of an explorer at once: each gets the attention of its own text, whatever the others ask for."""

import io
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from fastapi.testclient import TestClient
from serving_runs import folder_of

from headwise.explain import heads
from headwise.explorer import api
from headwise.explorer.api import add_explorer
from headwise.explorer.explorer import Store
from headwise.explorer.traces import traced
from headwise.service.app import create_app
from headwise.service.loaded import load_runs

pytestmark = pytest.mark.slow
CLIENTS, LAYER = 64, "decoder.blocks.0.cross_attention"
TEXTS = [
    f"{a} and {b}{' and ' + a if n % 2 else ''} ."
    for n, (a, b) in enumerate((a, b) for a in "abcdef" for b in "ghijkabcdef")
]
TEXTS = list(dict.fromkeys(TEXTS))[:CLIENTS]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return load_runs([folder_of(tmp_path_factory.mktemp("many"))])


class Client:
    """One that asks for a text until it is told; what it was refused with is kept."""

    def __init__(self, client, text):
        self.client, self.text = client, text
        self.refused = []

    def ask(self, path, values=None):
        """An answer; None: the trace is gone meanwhile."""
        while True:
            answer = self.client.get(path) if values is None else self.client.post(path, json=values)
            if answer.status_code in (200, 201, 404):
                return None if answer.status_code == 404 else answer
            self.refused.append(answer.status_code)
            time.sleep(0.05)

    def looks(self):
        """The trace of its text, and of it a matrix and the small pictures, or None where it was gone by then."""
        told = self.ask("/api/v1/traces", {"text": self.text}).json()
        at = f"/api/v1/traces/{told['trace_id']}"
        parts = [self.ask(f"{at}/matrix?layer={LAYER}&head=1"), self.ask(f"{at}/thumbs?group=decoder+cross&size=4")]
        return told, [part and np.load(io.BytesIO(part.content), allow_pickle=False) for part in parts]


@pytest.mark.parametrize("kept", [7, 1000], ids=["few traces are kept", "all traces are kept"])
def test_each_of_many_clients_gets_its_own(runs, monkeypatch, kept):
    run, stores, put = runs["run"], [], Store.put
    exact = [traced(run, text, None, f"text {text}") for text in TEXTS]
    limit = kept * max(one.bytes for one in exact)
    monkeypatch.setattr(api, "_STORE_BYTES", limit)

    def watched(store, one):
        put(store, one)
        stores.append(store.bytes)

    monkeypatch.setattr(Store, "put", watched)
    assert len(TEXTS) == CLIENTS
    with TestClient(create_app(runs, more=[add_explorer]), base_url="http://127.0.0.1:8000") as client:
        clients = [Client(client, text) for text in TEXTS]
        with ThreadPoolExecutor(CLIENTS) as many:
            found = list(many.map(Client.looks, clients))
        assert client.get("/health").json()["waiting"] == 0
    for one, (told, (matrix, small)) in zip(exact, found, strict=True):
        assert (told["trace_id"], told["source"], told["output"]) == (one.id, one.source, one.output)
        weights = one.weights(LAYER)
        if matrix is not None:
            np.testing.assert_allclose(matrix, weights[1], atol=1e-6)
        if small is not None:
            np.testing.assert_array_equal(small[0], heads.thumbnails(weights, 4))
    # nobody is told of a fault: who has to wait comes again
    assert {status for one in clients for status in one.refused} <= {429, 503}
    assert max(stores) <= limit
    gone = sum(part is None for _, parts in found for part in parts)
    assert (gone == 0) == (kept >= CLIENTS)
