"""Hugging Face Accelerate's loop around the same model, optimizer and batches: `prepare`, `backward`, clip, step.

    accelerator.prepare(model, optimizer); loss = model(batch) x processes / tokens of all; accelerator.backward(loss)

As https://huggingface.co/docs/accelerate says for losses that are divided by the tokens of all processes.
"""

import time
from collections.abc import Callable, Iterator
from typing import Any

from headwise.training.optimizers import learning_rate, set_learning_rate
from headwise.training.recipe import Recipe
from headwise.training.session import Session


def steps(recipe: Recipe, session: Session, last: int) -> Iterator[tuple[int, float]]:
    """Trains a session that no processes share by processes of a launcher; of each step its number and its tokens."""
    import torch
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    model, optimizer = accelerator.prepare(session.objective, session.optimizer)
    world, rank = accelerator.num_processes, accelerator.process_index
    for step in range(1, last + 1):
        batches = session.source.take(1, rank, world)
        own = torch.tensor(sum(batch.num_tokens for batch in batches))
        tokens = int(accelerator.gather(own).sum())
        set_learning_rate(session.optimizer, learning_rate(recipe.training, step, step / last))
        for batch in batches:
            accelerator.backward(model(batch) * world / tokens)
        accelerator.clip_grad_norm_(model.parameters(), recipe.training.clip_norm)
        optimizer.step()
        optimizer.zero_grad()
        yield step, tokens


def measured(
    recipe: Recipe, session: Session, marks: range, sent: Callable[[], float]
) -> list[tuple[int, float, float]]:
    """(step, bytes sent so far, tokens a second since the mark before) at these steps."""
    found: list[tuple[int, float, float]] = []
    tokens, begun = 0.0, time.perf_counter()
    for step, count in steps(recipe, session, marks[-1]):
        tokens += count
        if step in marks:
            found.append((step, sent(), tokens / (time.perf_counter() - begun)))
            tokens, begun = 0.0, time.perf_counter()
    return found


def is_there() -> bool:
    """Whether Accelerate is installed: `pip install accelerate`, or the extra `bench`."""
    from importlib.util import find_spec

    return find_spec("accelerate") is not None


def session_of(recipe: Recipe) -> Any:
    """A new session of a recipe, alone."""
    from headwise.tasks import registry

    kind = registry.task_type(recipe.task)
    session = Session(kind(recipe, kind.prepare(recipe)), recipe)
    session.begin()
    return session
