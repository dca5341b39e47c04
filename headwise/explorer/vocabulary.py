"""What a run can be made to write: the tokens of its vocabulary that begin with what is typed."""

from typing import Annotated, Any

from fastapi import FastAPI, Query, Request, Response

from headwise.data.cutting import NUM_SPECIALS
from headwise.data.text import SPACE_MARK
from headwise.data.tokenizers import Tokenizer
from headwise.explorer.explorer import Name
from headwise.service.answers import as_json
from headwise.service.app import Service


def add_vocabulary(app: FastAPI, service: Service) -> None:
    @app.get("/api/v1/tokens")
    async def tokens(
        request: Request,
        model: Name,
        begins: Annotated[str, Query(min_length=1, max_length=200)],
        most: Annotated[int, Query(ge=1, le=100)] = 12,
    ) -> Response:
        """Tokens of what a run writes that begin with a text, the shortest first, and those that are this text."""
        run = service.find(model, "predict")
        matches = await service.compute(lambda: beginning(run.predictor.writes(), begins), request)
        exact = [match["token"] for match in matches if match["text"] == _read(begins)]
        return as_json({"model": run.name, "exact": exact, "tokens": matches[:most], "count": len(matches)})


def beginning(tokenizer: Tokenizer, begins: str) -> list[dict[str, Any]]:
    """Tokens with their numbers; the mark of a space before one does not count, and special tokens are none of them."""
    prefix = _read(begins)
    texts = ((token, tokenizer.shown(token)) for token in range(NUM_SPECIALS, tokenizer.vocab_size))
    matches = [{"token": token, "text": text} for token, text in texts if text.startswith(prefix)]
    return sorted(matches, key=lambda match: (len(match["text"]), match["text"]))


def _read(begins: str) -> str:
    # a space alone is a token of its own
    return begins.strip() or SPACE_MARK
