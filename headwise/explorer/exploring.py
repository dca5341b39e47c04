"""`headwise.explore`: the explorer of one model, from a script or a notebook."""

import os
import secrets
import sys
import webbrowser
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwise.adoption import is_adopted, release
from headwise.errors import ConfigError
from headwise.predictors.predictor import Predictor
from headwise.service.loaded import LoadedRun, adopted_run, load_runs

if TYPE_CHECKING:
    from headwise.explorer.serving import Exploration


def explore(
    model: Any,
    tokenizer: Any = None,
    *,
    port: int = 0,
    browser: bool = True,
    wait: bool | None = None,
    height: int = 800,
) -> "Exploration":
    """Shows a model in the explorer: what each head attends to, how an output is written, what edits change.

    In a script the browser opens, and the call returns after Ctrl+C. In a notebook it returns at once, and the cell
    shows the explorer; `close()` ends it. The server answers this machine alone.

    Args:
        model: a model of transformers; a predictor, as `headwise.load` returns it; or a folder: of a run, or of a
            Hugging Face model as `save_pretrained` writes it. A model of transformers is adopted (`adopt`) until the
            explorer is closed.
        tokenizer: of a model of transformers: its tokenizer, or the image processor of a vision model.
        port: 0: any that is free.
        browser: open the browser, outside of notebooks.
        wait: whether to wait until Ctrl+C; None: outside of notebooks and interactive sessions.
        height: of the frame in a notebook, in pixels.

    Raises:
        ConfigError: anything else, or a model without its tokenizer.
        CheckpointError: a folder without an intact run or model.
        Unsupported: a model whose attention cannot be adopted.
        MachineError: the port cannot be had.

    >>> import transformers
    >>> from tokenizers import Tokenizer, models, pre_tokenizers
    >>> words = Tokenizer(models.WordLevel({"[UNK]": 0, "the": 1, "cat": 2, "sat": 3}, "[UNK]"))
    >>> words.pre_tokenizer = pre_tokenizers.Whitespace()
    >>> tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=words)
    >>> sizes = {"vocab_size": 4, "n_embd": 8, "n_layer": 1, "n_head": 2, "n_positions": 16}
    >>> model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes, bos_token_id=0, eos_token_id=0))
    >>> with explore(model, tokenizer, browser=False, wait=False) as exploration:
    ...     exploration.address[:17]
    'http://127.0.0.1:'
    """
    try:
        from headwise.explorer.serving import Exploration, explorer_app
        from headwise.service.guard import NO_FRAMES, NOTEBOOKS
    except ModuleNotFoundError as error:
        raise ConfigError(f"{error.name} is not installed; pip install 'headwise[explore]'") from None
    notebook = _in_notebook()
    run, closed = _run_of(model, tokenizer)
    try:
        app = explorer_app({run.name: run}, frames=NOTEBOOKS if notebook else NO_FRAMES)
        exploration = Exploration(app, port, height, closed)
    except BaseException:
        closed()
        raise
    if browser and not notebook:
        webbrowser.open(exploration.address)
    if not (notebook or hasattr(sys, "ps1")) if wait is None else wait:
        sys.stdout.write(f"exploring at {exploration.address}; end with Ctrl+C\n")
        sys.stdout.flush()
        exploration.wait()
    return exploration


def _run_of(model: Any, tokenizer: Any) -> tuple[LoadedRun, Callable[[], None]]:
    """What is served, and what undoes the preparation of a model."""
    if isinstance(model, str | os.PathLike):
        folder = Path(model)
        if tokenizer is not None:
            raise ConfigError("a folder has its own tokenizer; leave the other one out")
        folders: tuple[list[Path], list[Path]] = (
            ([], [folder]) if (folder / "config.json").is_file() else ([folder], [])
        )
        (run,) = load_runs(*folders, files=True).values()
        return run, lambda: None
    if isinstance(model, Predictor):
        if tokenizer is not None:
            raise ConfigError("a predictor has its own tokenizer; leave the other one out")
        identity = secrets.token_hex(10)
        return LoadedRun(type(model.model).__name__, type(model).__name__, model, (), identity), lambda: None
    before = is_adopted(model)
    return adopted_run(model, tokenizer), lambda: None if before else _release(model)


def _release(model: Any) -> None:
    if is_adopted(model):
        release(model)


def _in_notebook() -> bool:
    """Whether a kernel of Jupyter runs this."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None
