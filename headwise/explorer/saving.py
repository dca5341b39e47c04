"""The weights of an input as one file: a page that opens without a server, or an archive of arrays."""

import base64
import hashlib
import html
import io
from collections.abc import Callable
from dataclasses import asdict
from typing import Any
from urllib.parse import urlencode

import numpy as np
from jaxtyping import UInt8

from headwise.errors import ConfigError
from headwise.explain import heads
from headwise.explain.attribution import Attribution, rollout_within
from headwise.explain.folding import Fold, fold_weights, useful_folds
from headwise.explain.places import OnSeries, OnSound
from headwise.explain.ramps import CONTROLS, hexadecimal
from headwise.explorer import bundle
from headwise.explorer.content import Content, described
from headwise.explorer.sounds import shades
from headwise.explorer.traces import Group, axes_of
from headwise.explorer.wire import npy
from headwise.files import json_text

# pages that are saved with what they asked for
KEPT = ("trace", "translate", "vision", "graph", "positions", "compare", "film")
# a page that is larger is slow to open
MOST_BYTES = 32_000_000
# as many layers, and as large, as the views ask for
_LAYERS, _SIDE = 64, 32
# a small picture and a row of the table, at most
_HEAD = _SIDE * _SIDE * 4 // 3 + 256
# what pages and scripts weigh beside their numbers
_BESIDE = 1 << 18

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>{style}</style>
</head>
<body>
<div id="app"></div>
<noscript>This page needs JavaScript.</noscript>
<script type="application/json" id="answers">{answers}</script>
<script>{script}</script>
</body>
</html>
"""


def page(content: Content) -> bytes:
    """One HTML file, UTF-8, that opens from disk and asks for nothing: its policy forbids it to.

    Weights are in half precision: exact to 1/2048 of each, or to 3e-8 where that is more.

    Raises: ConfigError where it would be larger than `MOST_BYTES`.
    """
    check(content, "html")
    # in JSON `<` is nothing but a letter of a string, so no text ends the script that it stands in
    answers = json_text(_answers(content), ascii=True).replace("<", "\\u003c")
    return _document("attend", f"Headwise: {content.source[:80]}" if content.source else "Headwise", answers)


def shell(name: str) -> bytes:
    """The file of a page of the explorer before it holds anything: `null` stands in place of its answers."""
    return _document(name, f"Headwise: {name}", "null")


def _document(name: str, title: str, answers: str) -> bytes:
    script, style = bundle.page(name), bundle.style(name)
    policy = (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; img-src data: blob:;"
        " base-uri 'none'; form-action 'none'"
    )
    page = _PAGE.format(policy=policy, title=html.escape(title), style=style, answers=answers, script=script)
    return page.encode("utf-8", "replace")


def archive(content: Content) -> bytes:
    """A `.npz` archive that `numpy.load` reads: of each layer `NAME.weights` in single precision, (heads, queries,
    keys), with the tokens of its rows and columns, `NAME.queries` and `NAME.keys`; and `source` and `output`. Of a
    method whose numbers have signs also `NAME.signed`, (queries, keys).

    Raises: ConfigError where it would be larger than `MOST_BYTES`.
    """
    check(content, "npz")
    arrays: dict[str, Any] = {"source": np.array(content.source), "output": np.array(content.output)}
    for group in content.groups:
        for layer in group.layers:
            arrays[f"{layer}.weights"] = content.weights(layer).astype("<f4")
            arrays |= {f"{layer}.queries": np.array(group.queries), f"{layer}.keys": np.array(group.keys)}
            if content.attribution is not None and layer in content.attribution.signed:
                arrays[f"{layer}.signed"] = content.attribution.signed[layer].astype("<f4")
    stream = io.BytesIO()
    np.savez(stream, allow_pickle=False, **arrays)
    return stream.getvalue()


FORMS: dict[str, tuple[Callable[[Content], bytes], str]] = {
    "html": (page, "text/html; charset=utf-8"),
    "npz": (archive, "application/octet-stream"),
}


def check(content: Content, form: str) -> None:
    """Raises: ConfigError where a file of this form would be larger than `MOST_BYTES`."""
    # half precision in base64, single precision
    size = int(content.numbers * (8 / 3 if form == "html" else 4)) + _BESIDE
    # shares, and the numbers with signs behind them
    size *= 1 if content.attribution is None else 2
    if form == "html":
        size += sum(group.heads * len(group.layers) * _HEAD * len(_folds(content, group)) for group in content.groups)
    if size > MOST_BYTES:
        raise ConfigError(
            f"the file would have {size / 1e6:,.0f} MB, and at most {MOST_BYTES / 1e6:,.0f} MB are written; give a"
            " shorter text, or save a part of the layers"
        )


def _answers(content: Content) -> dict[str, Any]:
    """What the scripts would ask a server for, by what they would ask."""
    matrices, masks, small, rollouts = {}, {}, {}, {}
    for group in content.groups:
        for layer in group.layers:
            matrices[layer] = [_halves(head) for head in content.weights(layer)]
            if (hidden := _hidden(content, group, layer)) is not None:
                masks[layer] = [_halves(head) for head in hidden]
        small[group.name] = _small(content, group)
        if group.one_sequence and len(group.layers) > 1:
            rollouts[group.name] = _halves(rollout_within(map(content.weights, group.layers)))
    trace = {"trace_id": "inside", "model": "", "source": content.source, "output": content.output, "warnings": []}
    # a saved page has pictures of sounds and of series, and none of images or graphs
    places = content.places if isinstance(content.places, OnSound | OnSeries) else None
    return {
        "trace": {
            **trace,
            "groups": [asdict(group) for group in content.groups],
            "axes": axes_of(content.groups, content.tokens, places),
            "places": None if places is None else places.description(),
        },
        "ramps": {name: hexadecimal(name) for name in CONTROLS},
        "small": small,
        "matrix": matrices,
        "masks": masks,
        "sound": _halves(shades(places)) if isinstance(places, OnSound) else None,
        "rollout": rollouts,
    } | ({} if content.attribution is None else _of_method(content.attribution))


def _of_method(attribution: Attribution) -> dict[str, Any]:
    """What the scripts would ask of what counts by a method."""
    at, by = "/api/v1/traces/inside/attribution", attribution.method
    answers = {f"{at}?{urlencode({'by': by})}": {"text": json_text(described(attribution))}}
    for name, layer in attribution.layers.items():
        for head in (None, *range(layer.shape[0])):
            query = {"by": by, "layer": name} | ({} if head is None else {"head": head})
            answers[f"{at}/map?{urlencode(query)}"] = {"base64": _halves(attribution.values(name, head))}
    return {"address": f"#/attend?{urlencode({'by': by})}", "answers": answers}


def _small(content: Content, group: Group) -> dict[str, Any]:
    """What shows all heads of a group at once, by how its tokens are folded."""
    sides, every = (group.queries, group.keys), _folds(content, group)
    summaries: dict[Fold, list[Any]] = {fold: [] for fold in every}
    pictures: dict[Fold, list[Any]] = {fold: [] for fold in every}
    # weights are made on demand, so once a layer
    for layer in group.layers:
        weights = content.weights(layer)
        for fold in every:
            folded = fold_weights(weights, sides, content.tokens, fold)
            summaries[fold].append(group.described(folded, content.tokens, fold))
            if len(pictures[fold]) < _LAYERS:
                pictures[fold].append(heads.thumbnails(folded, _SIDE))
    return {
        _named(fold): {
            "summary": {"layers": group.layers, "heads": summaries[fold]},
            "thumbs": _base64(npy(np.stack(pictures[fold]))),
        }
        for fold in every
    }


def _folds(content: Content, group: Group) -> list[Fold]:
    return [Fold(), *useful_folds((group.queries, group.keys), content.tokens)]


def _named(fold: Fold) -> str:
    """What the scripts call a fold by."""
    return f"{'true' if fold.merged else ''}/{fold.special}"


def _hidden(content: Content, group: Group, layer: str) -> UInt8[np.ndarray, "#heads queries keys"] | None:
    """1 where a mask forbids a pair, for each head or for all; None where the shape of the mask tells."""
    allowed, shape = content.allowed(layer), (len(group.queries), len(group.keys))
    if allowed is None:
        return None
    implied = np.tri(*shape, shape[1] - shape[0], dtype=bool) if group.causal else np.ones(shape, bool)
    allowed = np.broadcast_to(allowed, (len(allowed), *shape))
    return None if (allowed == implied).all() else (~allowed).astype(np.uint8)


def _halves(values: np.ndarray) -> str:
    return _base64(npy(values, single=False))


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")


def _digest(text: str) -> str:
    """What a policy calls a script or a style sheet by."""
    return f"sha256-{_base64(hashlib.sha256(text.encode()).digest())}"
