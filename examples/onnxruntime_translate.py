"""Translates by a folder of ONNX, greedily: python onnxruntime_translate.py FOLDER SENTENCE ..."""

import json
import sys
from pathlib import Path

import numpy as np
from onnxruntime import InferenceSession
from tokenizers import Tokenizer

folder, *sentences = sys.argv[1:]
meta = json.loads((Path(folder) / "meta.json").read_text(encoding="utf-8"))
source = Tokenizer.from_file(f"{folder}/tokenizer.json")
target_file = Path(folder) / "target_tokenizer.json"
target = Tokenizer.from_file(str(target_file)) if target_file.exists() else source
encoder, decoder = (InferenceSession(f"{folder}/{name}.onnx") for name in ("encoder", "decoder"))
tokens, names, limits = meta["tokens"], meta["programs"]["decoder"], meta["recipe"]["decoding"]


def nothing(entry):
    """A past without tokens: every axis of any size is empty, but for the batch."""
    sizes = [axis if isinstance(axis, int) else 1 if axis == "batch" else 0 for axis in entry["axes"]]
    return np.zeros(sizes, entry["type"])


def translated(sentence):
    read = np.array([source.encode(sentence).ids], np.int64)
    lens = np.array([read.shape[1]], np.int64)
    # what the decoder attends to, the same at every step
    reading = meta["programs"]["encoder"]
    memory = encoder.run(reading["outputs"], {reading["inputs"][0]["name"]: read, "source_lens": lens})
    stays = {"source_lens": lens, **dict(zip(reading["outputs"], memory, strict=True))}
    past = {entry["name"]: nothing(entry) for entry in names["inputs"] if entry["name"].startswith("past_")}
    longest = min(limits["max_len"], int(limits["max_len_a"] * read.shape[1] + limits["max_len_b"]))
    token, written = tokens["bos"], []
    # an input that a model does not read is none of its graph
    takes = {entry.name for entry in decoder.get_inputs()}
    while len(written) < longest:
        feed = {"tokens": np.array([[token]], np.int64), **stays, **past}
        logits, *present = decoder.run(None, {name: array for name, array in feed.items() if name in takes})
        past = dict(zip(past, present, strict=True))
        scores = logits[0, -1]
        scores[tokens["never"]] = -np.inf
        token = int(scores.argmax())
        if token == tokens["eos"]:
            break
        written.append(token)
    return target.decode(written)


for sentence in sentences:
    print(translated(sentence))
