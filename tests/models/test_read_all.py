"""Several batches that an encoder reads at once: what it makes of each by itself, in the model and in its twin."""

import pytest
import torch
from devices import DEVICE, seeded

from headwise.layers.blocks import EncoderBlock
from headwise.layers.inference import EncodingBlock, for_inference, is_plain
from headwise.layers.norms import TokenBatchNorm
from headwise.models.protocols import Encoder, Memory
from headwise.models.transformer import build_transformer
from headwise.models.transformer_config import TransformerConfig

VOCAB = 19
SIZES = {"d_model": 24, "d_ff": 23, "num_heads": 4, "encoder_layers": 2, "decoder_layers": 2, "max_len": 97}
PLAIN = {
    "post": {},
    "pre, rotary, grouped": {"norm_order": "pre", "position": "rotary", "num_kv_heads": 2},
    "gelu, learned": {"activation": "gelu", "position": "learned"},
    "swiglu, rms": {"activation": "swiglu", "norm": "rms", "norm_order": "pre"},
}
OTHERS = {
    "alibi": {"position": "alibi"},
    "relative": {"position": "transformer_xl"},
    "linear": {"mechanism": "linear", "position": "none"},
    "query norms": {"qk_norm": True},
}
# of sources: among them empty ones, one token, and a batch without padding
BATCHES = [[3, 0, 5], [1], [4, 4], [0]]


def model(options):
    torch.manual_seed(3)
    made = build_transformer(TransformerConfig(**(SIZES | options)), VOCAB, VOCAB, joint=True)
    with torch.no_grad():
        for parameter in made.parameters():
            if parameter.ndim == 1:
                parameter.add_(torch.randn_like(parameter) * 0.2)
    return made.double().eval()


def batches():
    generator = seeded(4)
    return [
        (torch.randint(4, VOCAB, (len(lens), max(*lens, 2)), generator=generator), torch.tensor(lens))
        for lens in BATCHES
    ]


@pytest.mark.parametrize("name", [*PLAIN, *OTHERS])
@pytest.mark.parametrize("twin", [False, True])
def test_each_batch_is_read_as_by_itself(name, twin):
    made = model((PLAIN | OTHERS)[name])
    reader = for_inference(made) if twin else made
    with torch.inference_mode():
        found = reader.encoder.read_all(batches())
        for memory, (tokens, lens) in zip(found, batches(), strict=True):
            states = made.encoder(tokens, lens).states
            inside = torch.arange(tokens.shape[1]) < lens[:, None]
            torch.testing.assert_close(memory.states[inside], states[inside], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", PLAIN)
def test_blocks_of_plain_attention_read_together(name):
    twin = for_inference(model(PLAIN[name]))
    assert all(type(block) is EncodingBlock for block in twin.encoder.blocks)
    asked = []
    for block in twin.encoder.blocks:
        block.block.register_forward_hook(lambda *_: asked.append(1))
    twin.encoder.read_all(batches())
    assert not asked


@pytest.mark.parametrize("name", OTHERS)
def test_other_blocks_stay_as_they_are(name):
    assert all(type(block) is EncoderBlock for block in for_inference(model(OTHERS[name])).encoder.blocks)


def test_statistics_of_a_batch_leave_its_padding_out():
    made = model({})
    for block in made.encoder.blocks:
        block.attention_residual.before = TokenBatchNorm(SIZES["d_model"])
    assert all(type(block) is EncoderBlock for block in for_inference(made.double()).encoder.blocks)


def test_a_segment_or_a_mask_of_its_own_is_honoured():
    twin = for_inference(model({}))
    twin.encoder.segment = 2
    found, alone = twin.encoder.read_all(batches()), [twin.encoder(*batch) for batch in batches()]
    for one, other in zip(found, alone, strict=True):
        torch.testing.assert_close(one.states, other.states, rtol=0, atol=0)


def test_a_block_without_its_network_is_not_plain():
    block = model({}).encoder.blocks[0]
    assert is_plain(block)
    block.feed_forward = None
    assert not is_plain(block)


def test_every_encoder_reads_several():
    class Doubled(Encoder):
        def forward(self, inputs, valid_lens):
            return Memory(inputs[..., None] * 2.0)

    found = Doubled().read_all([(torch.tensor([[1, 2]]), torch.tensor([2])), (torch.tensor([[3]]), torch.tensor([1]))])
    assert [memory.states.flatten().tolist() for memory in found] == [[2, 4], [6]]


@pytest.mark.parametrize("lens", [[9, 1, 0, 2], [9, 9, 9, 9], [0, 0, 0, 0], [1, 9, 1, 1]])
def test_padding_is_not_projected_and_changes_nothing(lens):
    made = model(PLAIN["pre, rotary, grouped"])
    memory = Memory(torch.randn(4, 9, SIZES["d_model"], generator=seeded(5), dtype=torch.float64))
    rows = []
    projection = made.decoder.blocks[0].cross_attention.memory_projection
    projection.register_forward_hook(lambda _, inputs, output: rows.append(inputs[0].shape[:2].numel()))
    cache = made.decoder.start(memory, torch.tensor(lens))
    # elsewhere lengths are not read: the host would wait for the device
    assert rows == [36 if min(lens) == 9 or DEVICE != "cpu" else sum(lens)]
    for block, (_, cross) in zip(made.decoder.blocks, cache.layers, strict=True):
        plain = block.cross_attention.project_memory(memory.states)
        for kept, whole in zip(cross.read(), plain, strict=True):
            for row, length in enumerate(lens):
                torch.testing.assert_close(kept[row, :, :length], whole[row, :, :length], rtol=1e-12, atol=1e-12)


def test_padding_holds_nothing_that_spoils_a_step():
    made = model({})
    states = torch.randn(2, 6, SIZES["d_model"], generator=seeded(6), dtype=torch.float64)
    spoilt = states.clone()
    spoilt[1, 2:] = float("nan")
    lens, tokens = torch.tensor([6, 2]), torch.tensor([5, 7])
    with torch.inference_mode():
        steps = [made.decoder.step(tokens, made.decoder.start(Memory(each), lens)) for each in (states, spoilt)]
    torch.testing.assert_close(*steps, rtol=1e-12, atol=1e-12)
