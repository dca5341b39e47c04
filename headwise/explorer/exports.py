"""The routes that save a trace, or a page, as one file."""

from typing import Annotated, Literal

from fastapi import FastAPI, Query, Request, Response
from fastapi.responses import HTMLResponse

from headwise.errors import ConfigError
from headwise.explorer.attributing import attributed
from headwise.explorer.content import of_explanation, of_traced
from headwise.explorer.explorer import Explorer
from headwise.explorer.saving import FORMS, KEPT, check, shell
from headwise.service.problems import Problem


def add_exports(app: FastAPI, explorer: Explorer) -> None:
    kinds: dict[str, dict[str, str]] = {kind: {} for _, kind in FORMS.values()}

    @app.get("/api/v1/traces/{name}/export", response_class=Response, responses={200: {"content": kinds}})
    async def export(
        request: Request,
        name: str,
        form: Annotated[Literal["html", "npz"], Query(alias="as")] = "html",
        group: Annotated[str | None, Query(max_length=200)] = None,
        by: Annotated[str | None, Query(max_length=200)] = None,
    ) -> Response:
        """All weights of a trace, or of a group of its layers, as a page that opens from disk or as arrays; or what
        counts by a method."""
        traced, service = explorer.trace(name), explorer.service
        content = of_traced(traced)
        if by is not None:
            content = of_explanation(await service.compute(lambda: attributed(service, traced, by), request))
        content = content if group is None else content.group(group)
        try:
            check(content, form)
        except ConfigError as error:
            raise Problem(413, str(error), "group=NAME saves a group of layers") from None
        make, kind = FORMS[form]
        body = await service.compute(lambda: make(content), request)
        file = {"Content-Disposition": f'attachment; filename="attention.{form}"'}
        # a later version makes another page of the same trace
        return Response(body, media_type=kind, headers={"Cache-Control": "no-store", **file})

    @app.get("/api/v1/shell", response_class=HTMLResponse)
    async def empty(page: Annotated[str, Query(max_length=20)]) -> Response:
        """The file of a page before it holds answers: its script `answers` is `null`."""
        if page not in KEPT:
            raise Problem(404, "there is no such page to be kept", f"page is one of {', '.join(KEPT)}")
        return HTMLResponse(shell(page), headers={"Cache-Control": "no-store"})
