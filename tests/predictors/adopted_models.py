"""Small models of transformers with random weights, saved as folders with a tokenizer."""

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

WORDS = ["the", "a", "cat", "dog", "sat", "ran", "on", "mat", "log", ".", ",", "red", "big"]
SPECIAL = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
LAYERS = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4}
TEXT = SPECIAL | LAYERS | {"max_position_embeddings": 40}
PAIR = SPECIAL | {
    "d_model": 16,
    "max_position_embeddings": 40,
    "decoder_start_token_id": 1,
    "forced_eos_token_id": None,
}
PAIR |= {f"{side}_{what}": n for side in ("encoder", "decoder") for what, n in
         (("layers", 2), ("attention_heads", 4), ("ffn_dim", 19))}  # fmt: skip
KINDS = {
    "BertForMaskedLM": TEXT,
    "BertModel": TEXT,
    "BertForSequenceClassification": TEXT | {"num_labels": 3},
    "DistilBertForTokenClassification": SPECIAL | {"dim": 16, "hidden_dim": 24, "n_layers": 2, "n_heads": 4},
    "RobertaForMaskedLM": TEXT,
    "AlbertForMaskedLM": TEXT | {"embedding_size": 8},
    "GPT2LMHeadModel": SPECIAL | {"n_embd": 16, "n_layer": 2, "n_head": 4, "n_positions": 40},
    "LlamaForCausalLM": TEXT | {"num_key_value_heads": 2},
    "T5ForConditionalGeneration": SPECIAL | {"d_model": 16, "d_kv": 4, "d_ff": 19, "num_layers": 2, "num_heads": 4,
                                             "decoder_start_token_id": 0},
    "OPTForCausalLM": TEXT | {"ffn_dim": 19, "word_embed_proj_dim": 16},
    "Gemma3ForCausalLM": TEXT | {"num_key_value_heads": 2, "head_dim": 4, "sliding_window": 5,
                                 "layer_types": ["sliding_attention", "full_attention"]},
    "MarianMTModel": PAIR,
    "BartForConditionalGeneration": PAIR,
    "BartModel": PAIR,
    **{name: LAYERS | {"image_size": 16, "patch_size": 4, "num_labels": 3}
       for name in ("ViTModel", "ViTForImageClassification", "DeiTForImageClassificationWithTeacher")},
    "BloomForCausalLM": SPECIAL | {"n_layer": 2, "hidden_size": 16, "n_head": 4},
    "MptForCausalLM": SPECIAL | {"d_model": 16, "n_layers": 2, "n_heads": 4, "max_seq_len": 40},
    "FalconForCausalLM": TEXT | {"alibi": True, "multi_query": True},
    "GPTJForCausalLM": SPECIAL | {"n_embd": 16, "n_layer": 2, "n_head": 4, "n_positions": 40, "rotary_dim": 2},
    "DebertaV2ForMaskedLM": TEXT | {"relative_attention": True, "position_buckets": 4, "pos_att_type": ["p2c", "c2p"]},
    "DebertaForMaskedLM": TEXT,
}  # fmt: skip


def tokenizer(byte_level=False):
    """Words, or bytes, between `<s>` and `</s>`."""
    special = ["<pad>", "<s>", "</s>", "<unk>", "<mask>"]
    if byte_level:
        letters = sorted(pre_tokenizers.ByteLevel.alphabet())
        made = Tokenizer(models.BPE({piece: n for n, piece in enumerate([*special, *letters])}, []))
        made.pre_tokenizer, made.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    else:
        made = Tokenizer(models.WordLevel({word: n for n, word in enumerate([*special, *WORDS])}, "<unk>"))
        made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made.post_processor = processors.TemplateProcessing("<s> $A </s>", special_tokens=[("<s>", 1), ("</s>", 2)])
    names = {
        "pad_token": "<pad>",
        "bos_token": "<s>",
        "eos_token": "</s>",
        "unk_token": "<unk>",
        "mask_token": "<mask>",
    }
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made, **names)


def processor(**options):
    """Squares of 16 pixels."""
    size = {"height": 16, "width": 16}
    return transformers.ViTImageProcessorPil(
        size=size, image_mean=[0.4, 0.5, 0.6], image_std=[0.2, 0.3, 0.4], **options
    )


def made(folder, name, byte_level=False, **options):
    """A folder with a model of this class."""
    words = tokenizer(byte_level)
    kind = getattr(transformers, name)
    torch.manual_seed(5)
    model = kind(kind.config_class(**{"vocab_size": len(words)} | KINDS[name] | options)).eval()
    for parameter in model.parameters():
        if parameter.ndim > 1:
            torch.nn.init.normal_(parameter, std=parameter.shape[-1] ** -0.5)
    model.save_pretrained(folder)
    (processor() if model.main_input_name == "pixel_values" else words).save_pretrained(folder)
    return folder
