"""Requests made from the service's own document, right ones and wrong ones: no answer is a failure or undocumented."""

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis.specs.openapi.checks import positive_data_acceptance

from headwise.explorer.api import explored
from headwise.service.app import create_app

# what a model warns of, such as a text that it reads in part, is no failure
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
# requests to each address, right and wrong ones
MANY = 40


def test_whatever_is_asked_is_answered_as_the_document_says(runs):
    app = create_app(runs, hosts=["testserver", "localhost"], more=[explored])
    schema = schemathesis.openapi.from_asgi("/api/v1/openapi.json", app)
    modes = (schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE)
    found = []
    for operation in (result.ok() for result in schema.get_all_operations()):
        for mode in modes:

            @settings(max_examples=MANY, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
            @given(case=operation.as_strategy(generation_mode=mode))
            def asked(case):
                # that a text is too long, or there are two runs, is not in the document
                case.call_and_validate(excluded_checks=[positive_data_acceptance])

            try:
                asked()
            except Unsatisfiable:
                assert (operation.method, mode.name) == ("get", "NEGATIVE"), operation.label
            except (Exception, BaseExceptionGroup) as error:  # each address is told of
                found.append(f"{operation.label}, {mode.name}: {error}")
    assert not found, "\n\n".join(found)
