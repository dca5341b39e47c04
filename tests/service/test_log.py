"""What people send is not in the log of a service, and where its files are in no answer; other warnings are logged."""

import warnings
from types import SimpleNamespace

import pytest

from headwise.errors import CheckpointError, QuotingWarning
from headwise.service import server
from headwise.service.error_handlers import to_problem, without_folders
from headwise.service.limits import Limits
from headwise.service.streaming import failed


@pytest.mark.usefixtures("untyped")
def test_warnings_that_quote_an_input_are_not_logged(monkeypatch):
    def run(self, sockets):
        warnings.warn("'my secret...' is cut", QuotingWarning, stacklevel=1)
        warnings.warn("1 of 2 texts is cut", stacklevel=1)

    monkeypatch.setattr(server._Server, "run", run)
    app = SimpleNamespace(state=SimpleNamespace(give_up=lambda: None))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        server.listen(app, Limits(), "127.0.0.1", 0, lambda _: None)
        warnings.warn("'my own...' is cut", QuotingWarning, stacklevel=1)
    # afterwards, as on a command line, it is as before
    assert [str(one.message) for one in told] == ["1 of 2 texts is cut", "'my own...' is cut"]


def test_no_answer_says_where_files_are():
    problem = to_problem(
        CheckpointError("/srv/runs/mood/config.toml: is damaged ('/srv/my runs/mood', /tmp); train again")
    )
    assert problem.detail == "config.toml: is damaged ('my runs/mood', tmp); train again"
    assert without_folders("no text; POST a / b") == "no text; POST a / b"
    assert failed(CheckpointError("/srv/runs/mood: is gone")) == {"error": "mood: is gone"}
