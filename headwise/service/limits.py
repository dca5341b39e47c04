"""The limits of a service: sizes, counts and times, all in one place."""

from pydantic import Field

from headwise.config import Config

# seconds in which what lies in a socket is read when a time is over: a process that was stopped has not looked yet
LOOK_S = 0.25
_WHOLE_TOKENS = 512


class Limits(Config):
    """The bounds of a service; what is beyond them is refused, never cut."""

    body_bytes: int = Field(1 << 20, ge=1, description="size of a request, in bytes")
    header_bytes: int = Field(1 << 15, ge=1, description="size of all its headers, in bytes")
    headers: int = Field(100, ge=1, description="number of its headers")
    texts: int = Field(64, ge=1, description="texts of a request")
    chars: int = Field(8 * _WHOLE_TOKENS, ge=1, description="characters of a text")
    beam: int = Field(16, ge=1, description="beam size, and outputs for each text")
    max_len: int = Field(512, ge=1, description="tokens of an output")
    work: int = Field(1 << 18, ge=1, description="texts x hypotheses x tokens of a request")
    shown_texts: int = Field(8, ge=1, description="texts of a request whose attention is returned")
    shown_tokens: int = Field(1 << 13, ge=1, description="tokens of an input that the explorer shows")
    whole_tokens: int = Field(_WHOLE_TOKENS, ge=1, description="tokens of one whose weights are all returned")
    shown_bytes: int = Field(1 << 22, ge=1, description="bytes of a trace of all steps")
    queue: int = Field(64, ge=1, description="waiting requests; further ones get 429")
    batch: int = Field(128, ge=1, description="texts that are answered together")
    deadline_s: float = Field(30.0, gt=0, description="seconds until a request is given up")
    receive_s: float = Field(8.0, gt=0, description="seconds in which headers and body have to arrive")
    retry_s: int = Field(1, ge=0, description="seconds after which a refused request may come back")
    drain_s: int = Field(6, ge=1, description="seconds in which answers may still get out after a signal to end")
