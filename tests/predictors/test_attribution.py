"""Methods of attribution: each against its formula as a loop, gradients against Captum, and what rows sum to."""

from functools import partial
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import torch
from captum.attr import InputXGradient, IntegratedGradients

from headwise.data.tokenizers import Tokenizer, TokenizerConfig
from headwise.decoding.search import DecodingConfig
from headwise.errors import ConfigError, Unsupported
from headwise.explain.attribution import shares
from headwise.explain.methods import METHODS, page
from headwise.layers.blocks import Residual
from headwise.layers.embeddings import TokenEmbedding
from headwise.layers.norms import TokenBatchNorm, norm_parts, normed
from headwise.models.decoder_only import build_decoder
from headwise.models.transformer import build_transformer
from headwise.models.transformer_config import DecoderConfig, TransformerConfig
from headwise.predictors.attribution.attribute import attribute
from headwise.predictors.looking import passes
from headwise.records import Mute, edit
from headwise.tasks.language.language_model import Continuer
from headwise.tasks.translation.recurrent import RecurrentConfig, build_recurrent
from headwise.tasks.translation.translator import Translator

SOURCE, TARGET = "the cat sleeps .", "le chat dort bien ."
WORDS = TokenizerConfig(kind="word", joint=False)
# the methods whose rows add up over all inputs
WHOLE = ["rollout", "alti", "flow", "gradient", "integrated", "occlusion"]


@pytest.fixture(scope="module")
def translator():
    torch.manual_seed(1)
    source, target = Tokenizer.train([SOURCE, "a dog ."], WORDS), Tokenizer.train([TARGET, "un chien ."], WORDS)
    config = TransformerConfig(d_model=8, d_ff=11, num_heads=2, encoder_layers=2, decoder_layers=2, dropout=0.5)
    model = build_transformer(config, source.vocab_size, target.vocab_size, joint=False).double()
    return Translator(model.train(), source, target, DecodingConfig(method="greedy", max_len=7))


@pytest.fixture(scope="module")
def continuer():
    torch.manual_seed(2)
    letters = Tokenizer.train(["abcabcab"], TokenizerConfig(kind="char", spaces="kept"))
    config = DecoderConfig(d_model=12, d_ff=23, num_heads=3, num_layers=2, position="rotary")
    model = build_decoder(config, letters.vocab_size).double().eval()
    return Continuer(model, letters, DecodingConfig(method="greedy", max_len=4), 16, config.places())


def means(explanation):
    """The mean over the heads of each layer, by name."""
    return {name: layer.weights.mean(0) for name, layer in explanation.layers.items()}


def mixed(weights):
    return (weights + np.eye(len(weights))) / 2


def test_norms_are_the_lengths_of_what_each_key_adds(translator):
    attribution, explanation = attribute(translator, SOURCE, "norms", TARGET), translator.explain(SOURCE, TARGET)
    name = "decoder.blocks.1.cross_attention"
    with passes() as model_passes:
        translator.explain(SOURCE, TARGET)
    values, output = model_passes[-1].trace[name].value[0], translator.model.decoder.blocks[1].cross_attention.output
    for head, weights in enumerate(explanation.layers[name].weights):
        columns = output.weight[:, 4 * head : 4 * head + 4]
        lengths = [float((columns @ value).norm().detach()) for value in values[head]]
        expected = [[weight * length for weight, length in zip(row, lengths, strict=True)] for row in weights]
        np.testing.assert_allclose(attribution.layers[name].weights[head], shares(np.array(expected)), atol=1e-12)
    together = [
        [
            sum(
                explanation.layers[name].weights[head][row, key]
                * (output.weight[:, 4 * head : 4 * head + 4] @ values[head][key])
                for head in range(2)
            )
            .norm()
            .item()
            for key in range(5)
        ]
        for row in range(6)
    ]
    np.testing.assert_allclose(attribution.layers[name].mean(), shares(np.array(together)), atol=1e-12)
    np.testing.assert_array_equal(attribution.layers[name].mean(1), attribution.layers[name].weights[1])
    assert list(attribution.layers) == list(explanation.layers)
    assert attribution.row_error < 1e-12


def test_rollout_multiplies_the_layers_of_encoder_and_decoder(translator):
    attribution, table = attribute(translator, SOURCE, "rollout", TARGET), means(translator.explain(SOURCE, TARGET))
    encoder = mixed(table["encoder.blocks.1.self_attention"]) @ mixed(table["encoder.blocks.0.self_attention"])
    written, read = np.eye(6), np.zeros((6, 5))
    for block in (f"decoder.blocks.{number}" for number in range(2)):
        written, read = (mixed(table[f"{block}.self_attention"]) @ part for part in (written, read))
        written, read = written / 2, read / 2 + table[f"{block}.cross_attention"] @ encoder / 2
    np.testing.assert_allclose(attribution.layers["rollout from encoder"].weights[0], read, atol=1e-12)
    np.testing.assert_allclose(attribution.layers["rollout from decoder"].weights[0], written, atol=1e-12)
    source, target = attribution.layers["rollout from encoder"], attribution.layers["rollout from decoder"]
    assert (source.queries[0], source.keys[0], source.kind) == ("le", "the", "cross")
    assert (target.keys[0], target.kind) == ("<bos>", "self")


def test_flow_is_the_maximum_flow_of_a_graph_of_the_layers(continuer):
    attribution, tables = attribute(continuer, "abc", "flow"), [*means(continuer.explain("abc")).values()]
    length, graph = len(tables[0]), nx.DiGraph()
    for level, table in enumerate(map(mixed, tables)):
        for row in range(length):
            for column in np.flatnonzero(table[row]):
                graph.add_edge((level + 1, row), (level, int(column)), capacity=table[row, column])
    flows = np.array(
        [
            [
                nx.maximum_flow_value(graph, (len(tables), row), (0, column)) if (0, column) in graph else 0.0
                for column in range(length)
            ]
            for row in range(length)
        ]
    )
    np.testing.assert_allclose(attribution.layers["flow"].weights[0], shares(flows), atol=1e-4)
    # nothing flows to later tokens
    assert np.triu(attribution.layers["flow"].weights[0], 1).max() == 0.0


def alti_layer(attention, residual, weights, memory, x, *, cross):
    """The paper's formula as a loop: (queries, keys), and a column for the residual of cross-attention."""
    heads, width = attention.num_heads, attention.value_dim
    value_rows = (attention.memory_projection or attention.projection).weight[-heads * width :]
    bias = (attention.memory_projection or attention.projection).bias[-heads * width :]
    norm, table = residual.after, []
    for i in range(len(x)):
        parts = []
        for j in range(len(memory)):
            value = value_rows @ memory[j] + bias
            joined = torch.cat([weights[h, i, j] * value[h * width : (h + 1) * width] for h in range(heads)])
            parts.append(attention.output.weight @ joined)
        if cross:
            parts.append(x[i])
        else:
            parts[i] = parts[i] + x[i]
        total = sum(parts) + attention.output.bias
        output = total
        if isinstance(norm, torch.nn.LayerNorm):
            deviation = (total.var(unbiased=False) + norm.eps).sqrt()
            parts = [norm.weight * (part - part.mean()) / deviation for part in parts]
            constant = norm.weight * (attention.output.bias - attention.output.bias.mean()) / deviation + norm.bias
            output = norm(total)
        else:
            constant = attention.output.bias
        torch.testing.assert_close(sum(parts) + constant, output, atol=1e-12, rtol=0)
        near = [max(0.0, float(output.abs().sum() - (output - part).abs().sum())) for part in parts]
        # where biases are all that a row is near to, it keeps what it was
        near = near if sum(near) else [float(j == (len(memory) if cross else i)) for j in range(len(near))]
        table.append([part / sum(near) for part in near])
    return np.array(table)


@pytest.mark.parametrize("norm_order", ["post", "pre"])
@torch.no_grad()
def test_alti_is_the_product_of_contributions_of_transformed_vectors(norm_order):
    torch.manual_seed(6)
    source, target = Tokenizer.train([SOURCE], WORDS), Tokenizer.train([TARGET], WORDS)
    config = TransformerConfig(
        d_model=8, d_ff=11, num_heads=2, encoder_layers=2, decoder_layers=2, norm_order=norm_order
    )
    model = build_transformer(config, source.vocab_size, target.vocab_size, joint=False).double().eval()
    for parameter in model.parameters():
        # biases and gains too
        torch.nn.init.normal_(parameter, std=0.5)
    predictor, inputs = Translator(model, source, target, DecodingConfig(method="greedy", max_len=7)), {}

    def keep(name, module, inside):
        inputs[name] = inside[0][0]

    names = [name for name, module in model.named_modules() if isinstance(module, Residual)]
    handles = [model.get_submodule(name).register_forward_pre_hook(partial(keep, name)) for name in names]
    attribution, layers = attribute(predictor, SOURCE, "alti", TARGET), predictor.explain(SOURCE, TARGET).layers
    for handle in handles:
        handle.remove()
    memory = model.encoder(*[torch.tensor(part) for part in ([[*source.encode(SOURCE), source.eos_id]], [5])]).states[0]

    def layer(block, name, residual, states):
        module, around = model.get_submodule(f"{block}.{name}"), model.get_submodule(f"{block}.{residual}")
        x = inputs[f"{block}.{residual}"]
        read = states if states is not None else around.before(x)
        weights = layers[f"{block}.{name}"].weights
        return alti_layer(module, around, weights, read, x, cross=states is not None)

    read = np.eye(5)
    for number in range(2):
        read = layer(f"encoder.blocks.{number}", "self_attention", "attention_residual", None) @ read
    written, brought = np.eye(6), np.zeros((6, 5))
    for number in range(2):
        own = layer(f"decoder.blocks.{number}", "self_attention", "self_residual", None)
        cross = layer(f"decoder.blocks.{number}", "cross_attention", "cross_residual", memory)
        written, brought = cross[:, -1:] * (own @ written), cross[:, :-1] @ read + cross[:, -1:] * (own @ brought)
    np.testing.assert_allclose(attribution.layers["alti from encoder"].weights[0], brought, atol=1e-9)
    np.testing.assert_allclose(attribution.layers["alti from decoder"].weights[0], written, atol=1e-9)
    np.testing.assert_allclose(brought.sum(-1) + written.sum(-1), 1.0, atol=1e-12)


@pytest.mark.parametrize("norm", [torch.nn.LayerNorm(7), torch.nn.RMSNorm(7), TokenBatchNorm(7), torch.nn.Identity()])
def test_a_norm_of_parts_sums_to_the_norm_of_the_whole(norm):
    norm, parts = norm.double().eval(), torch.randn(3, 5, 7, dtype=torch.double)
    for tensor in (*norm.parameters(), *norm.buffers()):
        torch.nn.init.uniform_(tensor, 0.5, 2.0)
    total = parts.sum(1)
    constant = normed(norm, torch.zeros(1, 1, 7, dtype=torch.double), None)
    torch.testing.assert_close(norm_parts(norm, total, parts).sum(1) + constant[0], normed(norm, total[None], None)[0])


def test_heads_are_ablated_one_by_one(translator):
    attribution = attribute(translator, SOURCE, "ablation", TARGET)
    assert {name: table.shape for name, table in attribution.signed.items()} == {
        "ablation of encoder self, 2 heads": (2, 2),
        "ablation of decoder self, 2 heads": (2, 2),
        "ablation of decoder cross, 2 heads": (2, 2),
    }
    with passes() as model_passes:
        translator.explain(SOURCE, TARGET)
    log_probs = []
    for edits in ([], [Mute("decoder.blocks.1.cross_attention", 1)]):
        with edit(translator.model, *edits):
            scores = model_passes[-1].model_pass.run()[0].log_softmax(-1)
        if not edits:
            index = [*model_passes[-1].model_pass.inputs[-1][0, 1:].tolist(), int(scores[-1].argmax())]
        log_probs.append(float(scores[range(6), index].sum()))
    assert attribution.signed["ablation of decoder cross, 2 heads"][1, 1] == pytest.approx(log_probs[1] - log_probs[0])


class FromVectors(torch.nn.Module):
    """The log-probability of one token at one place, from the vectors of the tokens."""

    def __init__(self, model, tokens):
        super().__init__()
        self.model, self.tokens = model, tokens

    def forward(self, vectors, place, token):
        (embedding,) = (module for module in self.model.modules() if isinstance(module, TokenEmbedding))
        handle = embedding.register_forward_hook(lambda *_: vectors)
        try:
            return self.model(self.tokens.expand(len(vectors), -1))[:, place].log_softmax(-1)[:, token]
        finally:
            handle.remove()


@pytest.mark.parametrize(("method", "other"), [("gradient", InputXGradient), ("integrated", IntegratedGradients)])
def test_gradients_are_those_of_captum(continuer, method, other):
    attribution = attribute(continuer, "abc", method)
    with passes() as model_passes:
        continuer.explain("abc")
    (tokens,) = model_passes[-1].model_pass.inputs
    with torch.no_grad():
        (embedding,) = (module for module in continuer.model.modules() if isinstance(module, TokenEmbedding))
        vectors = embedding(tokens)
        best = continuer.model(tokens)[0].argmax(-1)
        unknown = embedding(torch.full_like(tokens, Tokenizer.unk_id))
    options = {}
    if method == "integrated":
        options = {"n_steps": 50, "method": "riemann_middle", "baselines": unknown}
    written = [*tokens[0, 1:].tolist(), int(best[-1])]
    # a row is what comes next
    assert attribution.layers[method].queries == [continuer.tokenizer.shown(token) for token in written]
    for place, token in enumerate(written):
        expected = other(FromVectors(continuer.model, tokens)).attribute(
            vectors.requires_grad_(), additional_forward_args=(place, token), **options
        )
        np.testing.assert_allclose(attribution.signed[method][place], expected[0].sum(-1).detach().numpy(), atol=1e-7)


def test_integrated_gradients_sum_to_what_the_input_brings(translator):
    attribution = attribute(translator, SOURCE, "integrated", TARGET)
    occluded = attribute(translator, SOURCE, "occlusion", TARGET)
    with passes() as model_passes:
        translator.explain(SOURCE, TARGET)
    model, inputs = translator.model.eval(), model_passes[-1].model_pass.inputs
    with torch.no_grad():
        # behind what is written, what would come next
        index = torch.tensor([*inputs[-1][0, 1:].tolist(), int(model(*inputs)[0, -1].argmax())])

    def log_probs(*unknown):
        embeddings = [module for module in model.modules() if isinstance(module, TokenEmbedding)]

        def hook(module, inputs, output):
            others = module.forward(torch.full_like(inputs[0], Tokenizer.unk_id))
            for place in unknown[embeddings.index(module)] if unknown else ():
                output[:, place] = others[:, place]
            return output

        handles = [module.register_forward_hook(hook) for module in embeddings]
        with torch.no_grad():
            scores = model(*inputs)[0].log_softmax(-1)
        for handle in handles:
            handle.remove()
        return scores[torch.arange(len(index)), index].numpy()

    whole = log_probs()
    total = sum(table.sum(-1) for table in attribution.signed.values())
    np.testing.assert_allclose(total, whole - log_probs(range(5), range(6)), atol=2e-2)
    for token in range(5):
        expected = whole - log_probs([token], [])
        np.testing.assert_allclose(occluded.signed["occlusion of the source"][:, token], expected, atol=1e-12)


@pytest.mark.parametrize("method", WHOLE)
def test_shares_of_a_row_are_one_over_all_inputs(translator, continuer, method):
    for predictor, item, target in ((translator, SOURCE, TARGET), (continuer, "abc", None)):
        mode = predictor.model.training
        attribution = attribute(predictor, item, method, target)
        totals = sum(layer.weights[0].sum(-1) for layer in attribution.layers.values())
        np.testing.assert_allclose(totals, 1.0, atol=1e-9)
        assert predictor.model.training == mode
        assert all(parameter.grad is None for parameter in predictor.model.parameters())
        assert METHODS[method].limit in attribution.lines()[-1]


def test_a_decoder_over_recurrent_states_is_attributed_too():
    torch.manual_seed(3)
    source, target = Tokenizer.train([SOURCE], WORDS), Tokenizer.train([TARGET], WORDS)
    config = RecurrentConfig(embed_dim=5, hidden_dim=7, num_layers=1)
    model = build_recurrent(config, source.vocab_size, target.vocab_size)
    predictor = Translator(model, source, target, DecodingConfig(method="greedy", max_len=7))
    rollout, explanation = attribute(predictor, SOURCE, "rollout", TARGET), predictor.explain(SOURCE, TARGET)
    (layer,) = explanation.layers.values()
    np.testing.assert_allclose(rollout.layers["rollout"].weights[0], layer.mean(), atol=1e-6)
    gradient = attribute(predictor, SOURCE, "gradient", TARGET)
    assert [table.shape for table in gradient.signed.values()] == [(6, 5), (6, 6)]
    with pytest.raises(Unsupported, match=r"no output matrix.*rollout"):
        attribute(predictor, SOURCE, "norms", TARGET)


def test_what_cannot_be_attributed_is_refused(translator, continuer):
    with pytest.raises(ConfigError, match="unknown attribution 'rolout'; did you mean 'rollout'"):
        attribute(translator, SOURCE, "rolout")
    long = Continuer(continuer.model, continuer.tokenizer, continuer.decoding, 80, None)
    with pytest.raises(Unsupported, match=r"up to 64 tokens, not 80.*rollout"):
        attribute(long, "abc" * 25, "flow")


def test_the_last_block_says_what_the_model_says_and_others_what_the_head_reads_in_them(translator):
    attribution = attribute(translator, SOURCE, "lens", TARGET)
    (layer,) = attribution.layers.values()
    assert layer.queries == ["decoder.blocks.0", "decoder.blocks.1"]
    assert layer.keys[:5] == ["1:le", "2:chat", "3:dort", "4:bien", "5:."]
    with passes() as model_passes:
        translator.explain(SOURCE, TARGET)
    model, inputs, hidden = translator.model.eval(), model_passes[-1].model_pass.inputs, []
    handles = [block.register_forward_hook(lambda *call: hidden.append(call[-1])) for block in model.decoder.blocks]
    with torch.no_grad():
        index = [*inputs[-1][0, 1:].tolist(), int(model(*inputs)[0, -1].argmax())]
        read = [model.decoder.output(model.decoder.norm(output))[0].softmax(-1) for output in hidden]
    for handle in handles:
        handle.remove()
    expected = np.stack([probabilities[range(6), index].numpy() for probabilities in read])
    np.testing.assert_allclose(layer.weights[0], expected, atol=1e-12)


def test_patching_brings_back_what_a_block_carries_at_one_place(continuer):
    with pytest.raises(ConfigError, match="another number of tokens"):
        attribute(continuer, "abc", "patching", target="a", other="ab")
    for by, other, message in (("patching", None, "needs other="), ("lens", "abd", "takes no other=")):
        with pytest.raises(ConfigError, match=f"by='{by}' {message}"):
            attribute(continuer, "abc", by, other=other)
    with pytest.raises(ConfigError, match="no difference between the two inputs"):
        attribute(continuer, "abc", "patching", target="a", other="abc")
    attribution = attribute(continuer, "abc", "patching", target="ab", other="acc")
    (restored,) = attribution.signed.values()
    # place 2 alone differs; causal blocks cannot tell before it
    assert np.abs(restored[:, :2]).max() < 1e-12
    assert restored.shape[1] == len(attribution.layers["patching of decoder.blocks"].keys)
    with passes() as model_passes:
        continuer.explain("abc", "ab")
        continuer.explain("acc", "ab")
    blocks, outputs = continuer.model.decoder.blocks, []
    handle = blocks[0].register_forward_hook(lambda *call: outputs.append(call[-1]))
    whole, without = (log_prob_of(seen.model_pass, model_passes[0].model_pass) for seen in model_passes)
    handle.remove()

    def put(module, inputs, output):
        return torch.cat([output[:, :2], outputs[0][:, 2:3], output[:, 3:]], 1)

    handle = blocks[0].register_forward_hook(put)
    patched = log_prob_of(model_passes[1].model_pass, model_passes[0].model_pass)
    handle.remove()
    assert restored[0, 2] == pytest.approx((patched - without) / (whole - without), abs=1e-9)


def log_prob_of(model_pass, chosen_by):
    """Of what is written behind the token that differs, place 2, and of the likeliest behind the last place."""
    tokens, best = chosen_by.inputs[0][0, 3:].tolist(), int(chosen_by.run()[0, -1].argmax())
    scores = model_pass.run()[0].log_softmax(-1)[2:]
    return float(scores[range(len(tokens) + 1), [*tokens, best]].sum())


def test_blocks_that_read_segments_have_no_output_for_all_places(translator):
    config = TransformerConfig(d_model=8, d_ff=11, num_heads=2, encoder_layers=2, decoder_layers=1, segment=3)
    source, target = translator.source_tokenizer, translator.target_tokenizer
    model = build_transformer(config, source.vocab_size, target.vocab_size, joint=False)
    predictor = Translator(model, source, target, DecodingConfig(method="greedy", max_len=7))
    with pytest.raises(Unsupported, match="called several times"):
        attribute(predictor, SOURCE, "patching", TARGET, "the cat sleeps the")
    totals = sum(layer.weights[0].sum(-1) for layer in attribute(predictor, SOURCE, "rollout", TARGET).layers.values())
    np.testing.assert_allclose(totals, 1.0, atol=1e-6)


def test_places_of_a_patched_decoder_are_named_by_what_it_read(translator):
    attribution = attribute(translator, "the cat sleeps .", "patching", "le chat .", other="the cat sleeps the")
    assert attribution.layers["patching of decoder.blocks"].keys == ["<bos>", "le", "chat", "."]
    assert attribution.layers["patching of encoder.blocks"].keys == ["the", "cat", "sleeps", ".", "<eos>"]


def test_weights_with_signs_count_by_their_size(continuer):
    torch.manual_seed(4)
    config = DecoderConfig(d_model=12, d_ff=23, num_heads=3, num_layers=2, position="none", mechanism="retention")
    model = build_decoder(config, continuer.tokenizer.vocab_size).double().eval()
    signed = Continuer(model, continuer.tokenizer, continuer.decoding, 16, config.places())
    assert min(layer.weights.min() for layer in signed.explain("abc").layers.values()) < 0
    (layer,) = attribute(signed, "abc", "rollout").layers.values()
    assert 0 <= layer.weights.min() <= layer.weights.max() <= 1


def test_rollout_of_layers_without_a_residual_is_the_product_of_their_weights(continuer):
    config = DecoderConfig(d_model=12, d_ff=23, num_heads=3, num_layers=2, position="none", residual=False)
    model = build_decoder(config, continuer.tokenizer.vocab_size).double().eval()
    predictor = Continuer(model, continuer.tokenizer, continuer.decoding, 16, config.places())
    first, second = means(predictor.explain("abc")).values()
    (layer,) = attribute(predictor, "abc", "rollout").layers.values()
    np.testing.assert_allclose(layer.weights[0], second @ first, atol=1e-12)


def test_reversible_layers_are_patched_together(translator):
    config = TransformerConfig(
        d_model=8, d_ff=11, num_heads=2, encoder_layers=2, decoder_layers=1, norm_order="pre", reversible=True
    )
    source, target = translator.source_tokenizer, translator.target_tokenizer
    model = build_transformer(config, source.vocab_size, target.vocab_size, joint=False)
    predictor = Translator(model, source, target, DecodingConfig(method="greedy", max_len=7))
    attribution = attribute(predictor, SOURCE, "patching", TARGET, "the cat sleeps the")
    assert attribution.layers["patching of encoder.blocks"].queries == ["encoder.blocks.0"]
    assert "encoder.blocks.0" in attribution.note
    with pytest.raises(Unsupported, match=r"encoder\.blocks.*no block.*rollout"):
        attribute(predictor, SOURCE, "alti", TARGET)


# figures of one with signs and one without; those of all take seconds
@pytest.mark.parametrize(
    "method",
    [pytest.param(name, marks=[] if name in ("gradient", "rollout") else pytest.mark.slow) for name in METHODS],
)
def test_figures_and_tables_name_the_method(translator, method, tmp_path):
    other = "the cat sleeps the" if method == "patching" else None
    attribution = attribute(translator, SOURCE, method, "le chat .", other)
    axes = attribution.page().axes[0]
    quantity = METHODS[method].signed or METHODS[method].quantity
    assert axes.child_axes[0].get_ylabel().partition(",\n")[0] == quantity
    assert (axes.images[0].norm.vmin < 0) == bool(METHODS[method].signed)
    assert (axes.get_ylabel(), axes.get_xlabel()) == (METHODS[method].rows, METHODS[method].columns)
    lines = "\n".join(attribution.lines())
    assert all(part in lines for part in (METHODS[method].formula, METHODS[method].source, METHODS[method].limit))
    assert len(attribution.write(tmp_path, every=True)) == 1 + len(attribution.layers)


def test_the_docs_have_every_method_as_the_code_has_it():
    assert page() in (Path(__file__).parents[2] / "docs" / "attribution.md").read_text(encoding="utf-8")
