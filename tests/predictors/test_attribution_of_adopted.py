"""Attribution to the tokens of Hugging Face models: norms as loops over their own matrices, gradients as Captum's."""

import numpy as np
import pytest
import torch

transformers = pytest.importorskip("transformers")

from adopted_models import made  # noqa: E402
from captum.attr import InputXGradient, IntegratedGradients  # noqa: E402

from headwise.errors import Unsupported  # noqa: E402
from headwise.explain.attribution import shares  # noqa: E402
from headwise.predictors.adopted import Adopted  # noqa: E402
from headwise.predictors.attribution.attribute import attribute  # noqa: E402
from headwise.predictors.saved import saved  # noqa: E402

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()

TEXT = "the cat <mask> on the mat ."
NAMES = ["BertForMaskedLM", "BertForSequenceClassification", "LlamaForCausalLM", "AlbertForMaskedLM", "MarianMTModel"]


@pytest.fixture(scope="module")
def adopted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("adopted")
    return {name: Adopted(saved(made(folder / name, name))) for name in NAMES}


@torch.no_grad()
def test_norms_are_the_lengths_of_what_each_key_adds(adopted):
    predictor, values = adopted["LlamaForCausalLM"], []
    layer = predictor.model.model.layers[1].self_attn
    handle = layer.v_proj.register_forward_hook(lambda module, inputs, output: values.append(output[0]))
    explanation, name = predictor.explain(TEXT, "a dog"), "model.layers.1.self_attn"
    handle.remove()
    attribution = attribute(predictor, TEXT, "norms", "a dog")
    for head, weights in enumerate(explanation.layers[name].weights):
        # two heads share keys and values
        value = values[-1][:, 4 * (head // 2) : 4 * (head // 2) + 4]
        lengths = [float((layer.o_proj.weight[:, 4 * head : 4 * head + 4] @ row).norm()) for row in value]
        expected = shares(weights * np.array(lengths))
        np.testing.assert_allclose(attribution.layers[name].weights[head], expected, atol=1e-6)


@pytest.mark.parametrize("method", ["gradient", "integrated", "occlusion"])
@pytest.mark.parametrize("name", ["BertForMaskedLM", "BertForSequenceClassification", "LlamaForCausalLM"])
def test_tokens_count_as_captum_says(adopted, name, method):
    predictor = adopted[name]
    target = "a dog ran" if name == "LlamaForCausalLM" else None
    attribution = attribute(predictor, TEXT, method, target)
    tokens = predictor.saved.tokens(TEXT) + ([] if target is None else predictor.saved.tokens(target, alone=False))
    ids = torch.tensor([tokens])
    embed = predictor.model.get_input_embeddings()
    vectors, unknown = embed(ids).detach(), embed(torch.full_like(ids, predictor.saved.tokenizer.unk_token_id)).detach()

    def log_probs(inputs, place=0, choice=0):
        logits = predictor.model(inputs_embeds=inputs).logits
        scores = (logits if logits.ndim == 2 else logits[:, place]).log_softmax(-1)
        return scores[:, choice]

    with torch.no_grad():
        best = predictor.model(input_ids=ids).logits[0].argmax(-1)
    chosen = [*tokens[1:], int(best[-1])] if target else best.reshape(-1).tolist()
    table = attribution.signed[method]
    assert table.shape == (len(chosen), len(tokens))
    for place in {0, len(chosen) // 2, len(chosen) - 1}:
        extra = {"additional_forward_args": (place, chosen[place])}
        if method == "gradient":
            expected = InputXGradient(log_probs).attribute(vectors.requires_grad_(), **extra)[0].sum(-1)
        elif method == "integrated":
            extra |= {"baselines": unknown, "n_steps": 50, "method": "riemann_middle"}
            expected = IntegratedGradients(log_probs).attribute(vectors.requires_grad_(), **extra)[0].sum(-1)
        else:
            whole = log_probs(vectors, place, chosen[place])
            hidden = [
                torch.where(torch.arange(len(tokens))[:, None] == j, unknown, vectors) for j in range(len(tokens))
            ]
            expected = torch.stack([(whole - log_probs(part, place, chosen[place]))[0] for part in hidden])
        np.testing.assert_allclose(table[place], expected.detach().numpy(), atol=1e-5)


@torch.no_grad()
def test_a_layer_that_is_passed_twice_is_two_layers(adopted):
    predictor = adopted["AlbertForMaskedLM"]
    (layer,) = predictor.explain(TEXT).layers.values()
    first, second = ((table + np.eye(9)) / 2 for table in layer.weights.mean(0).reshape(2, 9, 9))
    (rollout,) = attribute(predictor, TEXT, "rollout").layers.values()
    np.testing.assert_allclose(rollout.weights[0], second @ first, atol=1e-6)
    assert len(attribute(predictor, TEXT, "norms").layers) == 2


def test_both_inputs_of_an_encoder_decoder_count(adopted):
    attribution = attribute(adopted["MarianMTModel"], TEXT, "gradient", "a dog .")
    assert [table.shape for table in attribution.signed.values()] == [(5, 9), (5, 5)]
    totals = sum(layer.weights[0].sum(-1) for layer in attribution.layers.values())
    np.testing.assert_allclose(totals, 1.0, atol=1e-9)
    rollout = attribute(adopted["MarianMTModel"], TEXT, "rollout", "a dog .")
    assert set(rollout.layers) == {"rollout from encoder", "rollout from decoder"}


def test_what_is_not_known_of_a_model_is_refused(adopted):
    with pytest.raises(Unsupported, match="no block whose residual and norm are known"):
        attribute(adopted["BertForMaskedLM"], TEXT, "alti")
    tokenizer = adopted["BertForSequenceClassification"].saved.tokenizer
    unknown, tokenizer.unk_token = tokenizer.unk_token, None
    try:
        with pytest.raises(Unsupported, match="no unknown token"):
            attribute(adopted["BertForSequenceClassification"], TEXT, "occlusion")
    finally:
        tokenizer.unk_token = unknown
