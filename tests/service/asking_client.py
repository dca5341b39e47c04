"""A client of a service that runs in the same process."""

from fastapi.testclient import TestClient

from headwise.service.app import create_app
from headwise.service.limits import Limits


def client_of(runs, **limits):
    return TestClient(
        create_app(runs, Limits(**limits)), base_url="http://127.0.0.1:8000", raise_server_exceptions=True
    )
