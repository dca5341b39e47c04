"""Adopted models of Hugging Face transformers beside themselves with sdpa: forward, training step, generation.

python -m benchmarks.adoption
"""

import argparse
import copy
import importlib
import statistics
from typing import Any

import torch

from benchmarks.kernels import timed
from benchmarks.peers.huggingface import SKIPPED, installed
from benchmarks.tables import print_table
from headwise.adoption import adopt

GOAL = 1.10
COMMON = {"vocab_size": 2000, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": None}
WIDE = {"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 3, "num_attention_heads": 12}
MODELS = {
    "GPT2LMHeadModel": {"n_embd": 768, "n_layer": 3, "n_head": 12, "resid_pdrop": 0.0, "attn_pdrop": 0.0},
    "LlamaForCausalLM": {**WIDE, "num_key_value_heads": 4},
    "MistralForCausalLM": {**WIDE, "num_key_value_heads": 4, "sliding_window": 64},
    "BertForMaskedLM": WIDE,
}


def built(name: str) -> Any:
    """A model of this family with random weights, under sdpa."""
    transformers = importlib.import_module("transformers")
    transformers.logging.set_verbosity_error()
    family = getattr(transformers, name)
    torch.manual_seed(0)
    return family._from_config(family.config_class(**COMMON, **MODELS[name]), attn_implementation="sdpa").eval()


def passes(model: Any, tokens: torch.Tensor, keep: torch.Tensor) -> dict[str, Any]:
    """What is timed: one row is padded."""

    def forward() -> None:
        with torch.no_grad():
            model(input_ids=tokens, attention_mask=keep)

    def learning() -> None:
        model(input_ids=tokens, attention_mask=keep).logits.square().mean().backward()
        model.zero_grad(set_to_none=True)

    def generation() -> None:
        with torch.no_grad():
            model.generate(input_ids=tokens[:, :32], attention_mask=keep[:, :32], max_new_tokens=32, do_sample=False)

    found = {"forward": forward, "forward and backward": learning}
    return found | ({"32 tokens": generation} if model.can_generate() else {})


def report(rounds: int) -> dict[str, dict[str, float]]:
    """Prints and returns how many times the time of sdpa each pass takes."""
    torch.set_num_threads(1)
    tokens, keep = torch.randint(3, 2000, (4, 256)), torch.ones(4, 256, dtype=torch.long)
    # on the left, where those who generate pad
    keep[1, :20] = 0
    rows, found = [], {}
    for name in MODELS:
        plain = built(name)
        sides = passes(plain, tokens, keep), passes(adopt(copy.deepcopy(plain)), tokens, keep)
        for what in sides[0]:
            times = timed({"sdpa": sides[0][what], "adopted": sides[1][what]}, rounds)
            ratio = statistics.median(b / a for a, b in zip(times["sdpa"], times["adopted"], strict=True))
            rows.append([name, what, f"{ratio:.2f}", "yes" if ratio <= GOAL else "no"])
            found[f"{name} {what}"] = {"ratio": ratio}
    print_table(["adopted : sdpa, 4 x 256 tokens", "pass", "ratio", f"at most {GOAL}"], rows)
    return found


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="Adopted models beside sdpa, as ratios of CPU time.")
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    if not installed():
        print(SKIPPED)
        return
    report(options.rounds)


if __name__ == "__main__":
    main()
