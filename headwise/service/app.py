"""The routes of a service: `create_app`."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar, cast

from fastapi import FastAPI, Request, Response
from fastapi.responses import PlainTextResponse

from headwise.errors import HeadwiseError
from headwise.runs.film import has_film
from headwise.service.error_handlers import add_error_handlers, to_problem
from headwise.service.guard import LOOPBACK, NO_FRAMES, Guard, Straight
from headwise.service.limits import Limits
from headwise.service.loaded import LoadedRun
from headwise.service.meters import MEDIA_TYPE, Meters
from headwise.service.problems import MEDIA_TYPE as PROBLEM
from headwise.service.problems import Problem
from headwise.service.requests import Ask, AskTrace, check, check_text, parsed, request_type, schema_of
from headwise.service.responses import JSON, LINES, NOT_KEPT, as_json, as_lines, as_steps
from headwise.service.streaming import continued, streamed
from headwise.service.worker import Begins, Closed, Expired, Full, Job, Worker

T = TypeVar("T")

# when a service ends its answers are out, or given up: all that is left is a step of a search
_CLOSE_S = 2.0
# any address may answer with these
_REFUSALS: tuple[int | str, ...] = (400, 403, 404, 405, 408, 413, 415, 422, 429, 431, 500, 503)


class Service:
    """Runs, a queue, and what is counted."""

    def __init__(self, runs: Mapping[str, LoadedRun], limits: Limits):
        self.runs, self.limits = dict(runs), limits
        # runs as they were at a step, which are not listed
        self.checkpoints: dict[str, LoadedRun] = {}
        self.posts: dict[str, Callable[[Request], Awaitable[Response]]] = {}
        self.meters = Meters(lambda: len(self.worker))
        self.worker = Worker(limits.queue, limits.batch, self.meters.together)

    def find(self, name: str | None, verb: str) -> LoadedRun:
        """The run that is meant. Raises: Problem 404, 422."""
        if name in self.checkpoints:
            return self.checkpoints[name]
        fitting = [run for run in self.runs.values() if verb in (run.verb, "predict", "trace")]
        if name is None:
            if len(fitting) == 1:
                return fitting[0]
            names = ", ".join(run.name for run in fitting)
            detail = f"{len(fitting)} runs can {verb}: {names}" if fitting else f"no run here can {verb}"
            raise Problem(422 if fitting else 404, detail, 'say which with "model"' if fitting else "")
        if name not in self.runs:
            raise Problem(404, "there is no such model", "GET /api/v1/meta lists them")
        if self.runs[name] not in fitting:
            raise Problem(422, f"{name} cannot {verb}; its task is {self.runs[name].task}", "POST /api/v1/predict")
        return self.runs[name]

    def submit(
        self,
        run: Callable[[list[Any]], Sequence[Any]],
        items: list[Any],
        key: Any = None,
        flow: Begins | None = None,
        *,
        gathers: bool = False,
    ) -> Job:
        """Puts work into the queue. Raises: Problem 429, 503."""
        job = Job(run, items, key, time.monotonic() + self.limits.deadline_s, flow, gathers)
        try:
            self.worker.submit(job)
        except Full:
            retry = {"Retry-After": str(self.limits.retry_s)}
            raise Problem(429, "too many requests wait", "come back later", retry) from None
        except Closed:
            raise Problem(503, "the service ends") from None
        return job

    async def compute(self, work: Callable[[], T], request: Request) -> T:
        """The result of work that is done by itself, in its turn; raises as `submit` and `answer`."""
        (result,) = await self.answer(self.submit(lambda _: [work()], [None]), request)
        return cast(T, result)

    async def answer(self, job: Job, request: Request) -> Sequence[Any]:
        """What a job comes to. Raises: Problem 503 when its or the service's time is over; whatever the work raises."""
        loop = asyncio.get_running_loop()
        over: asyncio.Future[None] = loop.create_future()

        def end(_: Any = None) -> None:
            if not over.done():
                over.set_result(None)

        job.answer.add_done_callback(lambda _: loop.is_closed() or loop.call_soon_threadsafe(end))
        leaving = loop.create_task(_left(request))
        leaving.add_done_callback(end)
        late = loop.call_later(job.deadline - time.monotonic(), end)
        try:
            await over
            if not job.answer.done():
                raise Expired
            return job.answer.result()
        except Expired:
            if self.worker.closed:
                raise Problem(503, "the service ends") from None
            retry = {"Retry-After": str(self.limits.retry_s)}
            raise Problem(503, "the request took too long", "ask for less, or later", retry) from None
        finally:
            job.give_up()
            late.cancel()
            leaving.cancel()


async def _left(request: Request) -> None:
    # behind a body that was read nothing else comes
    while (await request.receive())["type"] != "http.disconnect":
        pass


def create_app(
    runs: Mapping[str, LoadedRun],
    limits: Limits | None = None,
    hosts: Collection[str] = LOOPBACK,
    more: Collection[Callable[[FastAPI, Service], None]] = (),
    frames: str = NO_FRAMES,
) -> FastAPI:
    """An ASGI application that answers for these runs.

    Args:
        hosts, frames: as in `Guard`.
    """
    service = Service(runs, limits or Limits())
    app = _empty_app(service)
    _add_status(app, service)
    for verb in sorted({"predict", *(run.verb for run in service.runs.values())}):
        able = [run for run in service.runs.values() if verb in (run.verb, "predict")]
        # any verb may be asked to stream, and says who can
        ask = request_type(kind for run in able for kind in run.options)
        route(app, service, verb, ask, _predict, media=(JSON, LINES))
    route(app, service, "trace", AskTrace, _trace)
    for add in more:
        add(app, service)
    add_error_handlers(app)
    # within what Starlette puts around everything, so that what fails is told by it alone
    app.add_middleware(Straight, posts=service.posts)
    app.add_middleware(Guard, limits=service.limits, hosts=hosts, frames=frames)
    return app


def _empty_app(service: Service) -> FastAPI:
    """An application without routes; its end is that of the service's worker."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(service.worker.close, _CLOSE_S)

    # the pages that FastAPI would serve load scripts from elsewhere
    app = FastAPI(
        title="Headwise",
        version="1",
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/v1/openapi.json",
        lifespan=lifespan,
        redirect_slashes=False,
        responses={code: {"description": "a problem document", "content": {PROBLEM: {}}} for code in _REFUSALS},
    )
    # what waits, and what is begun
    app.state.give_up = lambda: service.worker.close(0.0)
    return app


def _add_status(app: FastAPI, service: Service) -> None:
    @app.get("/health")
    async def health() -> Response:
        """Whether requests are answered, and how many wait."""
        return as_json({"status": "ok", "waiting": len(service.worker)})

    @app.get("/metrics", response_class=PlainTextResponse)
    async def metrics() -> Response:
        """Counters, in Prometheus' text format."""
        return Response(service.meters.text(), media_type=MEDIA_TYPE)

    @app.get("/api/v1/meta")
    async def meta() -> Response:
        """The runs, what each is asked for, whether it writes, was trained here and has a film, and the limits."""
        runs = [
            {
                "name": run.name,
                "task": run.task,
                "verb": run.verb,
                "model": type(run.predictor.model).__name__,
                "input": run.predictor.given,
                "chat": run.predictor.has_chat_template,
                "writes": run.decoding(None) is not None,
                "trained": run.folder is not None,
                "film": run.folder is not None and has_film(run.folder),
            }
            for run in service.runs.values()
        ]
        return as_json({"models": runs, "limits": service.limits.model_dump()})


Handler = Callable[[Service, str, Any, Request], Any]


def route(
    app: FastAPI,
    service: Service,
    verb: str,
    kind: type[Any],
    handler: Handler,
    status: int = 200,
    media: Sequence[str] = (JSON,),
) -> None:
    """A verb of the interface; bodies are read by `parsed`, so the document is told of them here."""

    async def answer(request: Request) -> Response:
        begun, code = time.perf_counter(), 500
        try:
            response: Response = await handler(service, verb, parsed(await request.body(), kind), request)
            code = response.status_code
            return response
        except HeadwiseError as error:
            problem = to_problem(error)
            code = problem.status
            raise problem from None
        except Problem as problem:
            code = problem.status
            raise
        finally:
            service.meters.answered(verb, code, time.perf_counter() - begun)

    body = {"required": True, "content": {JSON: {"schema": schema_of(kind)}}}
    app.add_api_route(
        f"/api/v1/{verb}",
        answer,
        methods=["POST"],
        name=verb,
        openapi_extra={"requestBody": body},
        response_class=Response,
        status_code=status,
        responses={status: {"content": {media_type: {} for media_type in media}}},
    )
    service.posts[f"/api/v1/{verb}"] = answer


async def _predict(service: Service, verb: str, ask: Ask, request: Request) -> Response:
    run = service.find(ask.model, verb)
    check(ask, service.limits, getattr(run.predictor, "decoding", None))
    settings = ask.options.model_dump(exclude_none=True)
    options = run.predictor.options(settings)
    items = run.attention_inputs(ask.texts, service.limits.whole_tokens) if ask.attention else run.items(ask.texts)
    if ask.stream:
        return _streamed(service, run, ask, items, options)
    body = {"model": run.name, "task": run.task}
    if ask.attention:
        job = service.submit(lambda items: _attended_answers(run, items, options), items)
        outputs, attention = zip(*await service.answer(job, request), strict=True)
        return as_json({**body, "outputs": outputs, "attention": attention})
    how = run.decoding(options)
    # what is drawn does not depend on who else asks
    alone = how is not None and how.method == "sample"
    key = None if alone else (run.name, json.dumps(settings, sort_keys=True))
    predictor = run.predictor
    job = service.submit(
        lambda items: predictor.predict(items, options),
        items,
        key,
        lambda: predictor.flow(options),
        gathers=key is not None and how is not None and run.searches_in_batches(how),
    )
    # written here, beside the products of others, and not by the thread that makes these
    pairs = zip(items, await service.answer(job, request), strict=True)
    return as_json({**body, "outputs": [run.written(item, output, options) for item, output in pairs]})


def _attended_answers(run: LoadedRun, items: list[Any], options: Any) -> list[tuple[Any, Any]]:
    return list(zip(run.answers(items, options), map(run.attention, items), strict=True))


def _streamed(service: Service, run: LoadedRun, ask: Ask, items: list[Any], options: Any) -> Response:
    if not run.predictor.streams or len(items) != 1 or ask.attention:
        raise Problem(422, "stream is for one text, without attention, of a model that continues texts")
    how = run.decoding(options)
    if how is None or how.method == "beam" or how.num_samples > 1:
        raise Problem(422, "stream writes one continuation: use method greedy or sample")
    return as_lines(streamed(service.submit, continued(run, options), items, lambda output: {"output": output}))


async def _trace(service: Service, verb: str, ask: AskTrace, request: Request) -> Response:
    run = service.find(ask.model, verb)
    check_text(ask.text, service.limits)
    items = run.attention_inputs([ask.text], service.limits.whole_tokens)
    job = service.submit(lambda items: [run.steps(item, None, ask.layer, ask.head) for item in items], items)
    (steps,) = await service.answer(job, request)
    return as_steps(steps, service.limits, NOT_KEPT)
