"""Problem documents (RFC 9457), which name what is wrong and what to do."""

import json
from http import HTTPStatus


class Problem(Exception):
    """A request that is refused, with the status and what to say.

    Args:
        headers: of the answer, such as Retry-After.
    """

    def __init__(self, status: int, detail: str, hint: str = "", headers: dict[str, str] | None = None):
        super().__init__(detail)
        self.status, self.detail, self.hint, self.headers = status, detail, hint, headers or {}

    def body(self) -> bytes:
        """The document, as JSON that is plain ASCII: it can hold what somebody sent."""
        fields = {"status": self.status, "title": HTTPStatus(self.status).phrase, "detail": self.detail}
        return json.dumps(fields | ({"hint": self.hint} if self.hint else {})).encode()


MEDIA_TYPE = "application/problem+json"
