"""Requests made from the service's own document, right ones and wrong ones: no answer is a failure or undocumented."""

from collections import Counter

import pytest
import schemathesis
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis.specs.openapi.checks import positive_data_acceptance

from headwise.explorer.api import add_explorer
from headwise.explorer.comparing import bench_routes
from headwise.explorer.films import add_films
from headwise.explorer.pages import add_pages
from headwise.service.app import create_app

# what a model warns of, such as a text that it reads in part, is no failure
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
# requests to each address, right and wrong ones
MANY = 40


def aimed(case, run, trace, film):
    """The request, at a run, a trace and a film that are there; no document knows their names."""
    group = trace["groups"][0]
    known = {"model": run, "name": trace["trace_id"], "group": group["name"], "layer": group["layers"][0]}
    known["identity"] = film
    for part in (case.query, case.path_parameters):
        part.update({name: value for name, value in known.items() if name in part})
    if isinstance(case.body, dict):
        case.body["model"] = run


def test_whatever_is_asked_is_answered_as_the_document_says(runs):
    app = create_app(
        runs,
        hosts=["testserver", "localhost", "127.0.0.1"],
        more=[add_explorer, add_films, bench_routes([]), add_pages],
    )
    # no lifespan here: its end would be that of the worker
    client = TestClient(app, base_url="http://127.0.0.1:8000")
    trace = client.post("/api/v1/traces", json={"model": "german", "text": "a and g ."}).json()
    film = client.get("/api/v1/films/german").json()["film_id"]
    schema = schemathesis.openapi.from_asgi("/api/v1/openapi.json", app)
    modes = (schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE)
    found, counts = [], Counter()
    for operation in (result.ok() for result in schema.get_all_operations()):
        for mode in modes:

            @settings(max_examples=MANY, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
            @given(case=operation.as_strategy(generation_mode=mode), run=st.sampled_from([None, *runs]))
            def asked(case, run):
                counts[mode] += 1  # noqa: B023
                if run is not None and mode is modes[0]:  # noqa: B023
                    aimed(case, run, trace, film)
                # that a text is too long, or there are two runs, is not in the document
                case.call_and_validate(excluded_checks=[positive_data_acceptance])

            try:
                asked()
            except Unsatisfiable:
                assert (operation.method, mode.name) == ("get", "NEGATIVE"), operation.label
            except (Exception, BaseExceptionGroup) as error:  # each address is told of
                found.append(f"{operation.label}, {mode.name}: {error}")
    assert not found, "\n\n".join(found)
    assert min(counts.values()) > 1000
