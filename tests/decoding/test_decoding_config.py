import pytest
import torch
from toys import BOS, EOS, Logits, Prefixes, Table

from headwise.config import build
from headwise.decoding.beam import beam_search
from headwise.decoding.constraints import constraints
from headwise.decoding.sampling import Draws, greedy, sample
from headwise.decoding.search import DecodingConfig, search
from headwise.errors import ConfigError

IDS = {"bos_id": BOS, "eos_id": EOS}
SENTENCES = [Logits(i, 9) for i in range(3)]


def by_config(draws=None, prefix=None, **values):
    config = DecodingConfig(max_len_a=2.0, max_len_b=1.0, max_len=6, **values)
    rules = config.constraints([1, 2, 9], banned=[3], prefix=prefix, **IDS)
    return search(Table(SENTENCES), Prefixes(3), config, rules, draws=draws)


SET = {"min_len": 2, "length_penalty": 0.5, "no_repeat_ngram": 2}


def test_search_does_what_the_function_does():
    prefix = [[2], [], [4, 4]]
    rules = constraints([3, 5, 6], banned=[3], prefix=prefix, **IDS, **SET)
    found = by_config(beam_size=4, n_best=3, prefix=prefix, **SET)
    assert found == beam_search(Table(SENTENCES), Prefixes(3), rules, beam_size=4, n_best=3)
    found = by_config(method="greedy", prefix=prefix, **SET)
    assert found == greedy(Table(SENTENCES), Prefixes(3), rules)
    options = {"num_samples": 3, "temperature": 1.5, "top_k": 4, "top_p": 0.9}
    found = by_config(Draws(1), method="sample", prefix=prefix, **options, **SET)
    generator = torch.Generator().manual_seed(1)
    assert found == sample(Table(SENTENCES), Prefixes(3), rules, generator=generator, **options)


@pytest.mark.parametrize(
    ("values", "src_len", "limit"),
    [({}, 8, 22), ({}, 1000, 256), ({"max_len_a": 0.0, "max_len_b": 0.0}, 3, 1), ({"min_len": 30}, 2, 30)],
)
def test_the_length_limit_follows_the_source(values, src_len, limit):
    assert DecodingConfig(**values).limit(src_len) == limit


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"beam_size": 2**62}, "beam_size: must be 65536 or less"),
        ({"beam_size": 0}, r"beam_size: must be 1 or more, not 0"),
        ({"beam_size": 2, "n_best": 3}, r"n_best \(3\) must be at most beam_size \(2\)"),
        ({"min_len": 9, "max_len": 8}, r"min_len \(9\) is above max_len \(8\)"),
        ({"temperature": 0}, "temperature: must be above 0, not 0"),
        ({"top_p": 1.1}, "top_p: must be 1 or less, not 1.1"),
        ({"method": "bean"}, "unknown method 'bean'; did you mean 'beam'"),
        ({"beam_sise": 3}, "did you mean 'beam_size'"),
    ],
)
def test_wrong_values_are_errors(values, message):
    with pytest.raises(ConfigError, match=message):
        build(DecodingConfig, values, "recipe.toml")
