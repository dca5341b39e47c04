"""Small models of transformers' own classes with random weights, as `save_pretrained` writes them."""

import json

import torch
import transformers
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

transformers.logging.set_verbosity_error()

PAD, UNK, EOS, BOS, MASK = range(5)
NAMES = ["<pad>", "<unk>", "</s>", "<s>", "<mask>"]
SIZE, PLACES = 53, 48
WORDS = [f"w{number}" for number in range(SIZE - len(NAMES))]
SIZES = {"encoder_layers": 2, "decoder_layers": 3, "encoder_attention_heads": 3, "decoder_attention_heads": 3}
SIZES |= {"encoder_ffn_dim": 22, "decoder_ffn_dim": 22, "d_model": 18, "max_position_embeddings": PLACES}
TOKENS = {"vocab_size": SIZE, "pad_token_id": PAD, "eos_token_id": EOS, "bos_token_id": BOS}
WRITES = {**SIZES, **TOKENS, "forced_eos_token_id": None}
STACK = {**TOKENS, "hidden_size": 18, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 22}
STACK |= {"max_position_embeddings": PLACES}

# (class, configuration, keys besides, what stands before a text)
FAMILIES = {
    "marian": ("MarianMTModel", WRITES | {"decoder_start_token_id": PAD, "scale_embedding": True}, ""),
    "marian-silu": ("MarianMTModel", WRITES | {"decoder_start_token_id": PAD, "activation_function": "swish"}, ""),
    "pegasus": (
        "PegasusForConditionalGeneration",
        WRITES | {"decoder_start_token_id": PAD, "scale_embedding": True, "activation_function": "relu"},
        "",
    ),
    "bart": (
        "BartForConditionalGeneration",
        WRITES | {"decoder_start_token_id": EOS, "forced_bos_token_id": BOS},
        "<s> ",
    ),
    "blenderbot": (
        "BlenderbotForConditionalGeneration",
        WRITES | {"decoder_start_token_id": BOS, "encoder_no_repeat_ngram_size": 0},
        "",
    ),
}
T5 = {**TOKENS, "d_model": 18, "d_kv": 5, "d_ff": 22, "num_layers": 3, "num_decoder_layers": 2, "num_heads": 3}
T5 |= {"decoder_start_token_id": PAD, "n_positions": PLACES, "relative_attention_num_buckets": 8}
T5 |= {"relative_attention_max_distance": 10}
FAMILIES |= {
    "t5": ("T5ForConditionalGeneration", T5, ""),
    "t5-gated": (
        "T5ForConditionalGeneration",
        T5 | {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False},
        "",
    ),
}
TRANSLATORS = list(FAMILIES)
GROUPED = {**STACK, "num_key_value_heads": 1}
STRETCHED = {"rope_type": "llama3", "rope_theta": 500.0, "factor": 4.0, "original_max_position_embeddings": 16}
STRETCHED |= {"low_freq_factor": 1.0, "high_freq_factor": 4.0}
GPT2 = {"vocab_size": SIZE, "n_positions": PLACES, "n_embd": 18, "n_layer": 2, "n_head": 3}
FAMILIES |= {
    "gpt2": ("GPT2LMHeadModel", GPT2 | {"bos_token_id": EOS, "eos_token_id": EOS, "pad_token_id": None}, ""),
    "opt": (
        "OPTForCausalLM",
        {key: STACK[key] for key in STACK if key != "intermediate_size"}
        | {"ffn_dim": 22, "word_embed_proj_dim": 18, "bos_token_id": EOS},
        "</s> ",
    ),
    "llama": ("LlamaForCausalLM", GROUPED, "<s> "),
    "llama-biased": (
        "LlamaForCausalLM",
        GROUPED | {"tie_word_embeddings": True, "attention_bias": True, "mlp_bias": True, "rope_parameters": STRETCHED},
        "<s> ",
    ),
    "mistral": ("MistralForCausalLM", GROUPED, "<s> "),
    "mistral-windowed": ("MistralForCausalLM", GROUPED | {"sliding_window": 5}, "<s> "),
    "qwen2": ("Qwen2ForCausalLM", GROUPED | {"bos_token_id": None}, ""),
    "qwen3": ("Qwen3ForCausalLM", GROUPED | {"head_dim": 8, "bos_token_id": None}, ""),
    "qwen3-windowed": (
        "Qwen3ForCausalLM",
        GROUPED | {"head_dim": 8, "use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1},
        "",
    ),
    "gemma2": (
        "Gemma2ForCausalLM",
        GROUPED
        | {"head_dim": 8, "query_pre_attn_scalar": 7, "sliding_window": 4}
        | {"attn_logit_softcapping": 3.0, "final_logit_softcapping": 5.0},
        "<s> ",
    ),
    "gemma3_text": (
        "Gemma3ForCausalLM",
        GROUPED
        | {"head_dim": 8, "query_pre_attn_scalar": 8, "sliding_window": 4, "num_hidden_layers": 3}
        | {"layer_types": ["sliding_attention", "sliding_attention", "full_attention"]}
        | {"rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 4.0, "rope_theta": 1e3}}},
        "<s> ",
    ),
}
DECODERS = [name for name in FAMILIES if name not in TRANSLATORS]
# of random weights, and a bias of the end with which outputs have several lengths
NOISE = 0.25
ENDS = {"marian": 4.0, "marian-silu": 6.0, "pegasus": 4.0, "bart": 3.0, "blenderbot": 4.0, "t5": 2.5, "t5-gated": 2.5}


def tokenizer(folder, before="", *, ends=True):
    """A tokenizer of words, and its files in a folder."""
    vocab = {name: number for number, name in enumerate([*NAMES, *WORDS])}
    backend = Tokenizer(models.WordLevel(vocab, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    special = [("</s>", EOS), ("<s>", BOS)]
    after = " </s>" if ends else ""
    if before or after:
        backend.post_processor = processors.TemplateProcessing(single=f"{before}$A{after}", special_tokens=special)
    names = {
        "pad_token": "<pad>",
        "unk_token": "<unk>",
        "eos_token": "</s>",
        "bos_token": "<s>",
        "mask_token": "<mask>",
    }
    words = transformers.PreTrainedTokenizerFast(tokenizer_object=backend, **names)
    words.save_pretrained(folder)
    return words


def _vary_t5(model, name):
    """Outputs of several lengths, and an output with a matrix of its own where the shape has one."""
    if name == "t5-gated":
        model.lm_head.weight = torch.nn.Parameter(0.6 * NOISE * torch.randn_like(model.lm_head.weight))
    model.lm_head.weight[EOS] *= ENDS[name]


def made(folder, name, **changes):
    """A model with random weights, large enough that its outputs differ and end, and its tokenizer."""
    kind, values, before = FAMILIES[name]
    torch.manual_seed(len(name))
    cls = getattr(transformers, kind)
    model = cls(cls.config_class(**{**values, **changes})).eval()
    sinusoids = name.startswith(("marian", "pegasus"))
    with torch.no_grad():
        for key, tensor in model.state_dict().items():
            if tensor.is_floating_point() and not (sinusoids and "embed_positions" in key):
                tensor.copy_(tensor + NOISE * torch.randn_like(tensor))
        if name.startswith("t5"):
            _vary_t5(model, name)
        if hasattr(model, "final_logits_bias"):
            model.final_logits_bias.normal_(std=0.3)
            # outputs of several lengths
            model.final_logits_bias[0, EOS] = ENDS[name]
    if name == "bart":
        model.generation_config.forced_bos_token_id = BOS
    model.save_pretrained(folder)
    return model, tokenizer(folder, before, ends=getattr(model.config, "is_encoder_decoder", False))


ENCODERS = {
    "bert": "Bert",
    "roberta": "Roberta",
    "xlm-roberta": "XLMRoberta",
    "distilbert": "DistilBert",
    "electra": "Electra",
    "modernbert": "ModernBert",
}
HEADS = {"classify": "SequenceClassification", "regress": "SequenceClassification"}
HEADS |= {"tag": "TokenClassification", "masked-lm": "MaskedLM"}
LABELS = {"classify": ["bad", "fair", "good"], "regress": ["LABEL_0"], "tag": ["O", "B-X", "I-X"], "masked-lm": []}


def word_pieces(folder):
    """A tokenizer as of BERT: small letters, pieces of words, and its files in a folder."""
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "w", *"0123456789", *(f"##{digit}" for digit in range(10))]
    backend = Tokenizer(models.WordPiece({piece: n for n, piece in enumerate(pieces)}, unk_token="[UNK]"))
    backend.normalizer = normalizers.BertNormalizer(lowercase=True)
    backend.pre_tokenizer, backend.decoder = pre_tokenizers.BertPreTokenizer(), decoders.WordPiece()
    special = [("[CLS]", 2), ("[SEP]", 3)]
    backend.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=special)
    names = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), pieces, strict=False))
    words = transformers.PreTrainedTokenizerFast(tokenizer_object=backend, **names)
    words.save_pretrained(folder)
    return words, len(pieces)


def byte_pairs(folder):
    """A tokenizer as of RoBERTa: pairs of bytes, a space before a word is a part of it, and its files in a folder."""
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer, backend.decoder = pre_tokenizers.ByteLevel(add_prefix_space=True), decoders.ByteLevel()
    special = ["<s>", "<pad>", "</s>", "<unk>", AddedToken("<mask>", lstrip=True, normalized=False)]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=280, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    backend.train_from_iterator([" ".join(WORDS)], trainer)
    backend.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), trim_offsets=True)
    names = {"bos_token": "<s>", "pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
    names |= {"cls_token": "<s>", "sep_token": "</s>", "mask_token": special[-1]}
    words = transformers.PreTrainedTokenizerFast(tokenizer_object=backend, **names)
    words.save_pretrained(folder)
    return words, backend.get_vocab_size()


def encoder(folder, name, task, **changes):
    """An encoder with the head of a task and random weights, and its tokenizer."""
    words, size = (byte_pairs if "roberta" in name else word_pieces)(folder)
    cls = getattr(transformers, f"{ENCODERS[name]}For{HEADS[task]}")
    values = {"vocab_size": size, "pad_token_id": words.pad_token_id, "max_position_embeddings": PLACES}
    if name == "distilbert":
        values |= {"dim": 18, "n_layers": 2, "n_heads": 3, "hidden_dim": 22}
    else:
        values |= {key: STACK[key] for key in ("hidden_size", "num_hidden_layers", "num_attention_heads")}
        values |= {"intermediate_size": 22}
    if name == "modernbert":
        values |= {"num_hidden_layers": 3, "local_attention": 4, "eos_token_id": 3}
        values |= {"layer_types": ["full_attention", "sliding_attention", "sliding_attention"]}
        values |= {"bos_token_id": 2, "classifier_pooling": "mean" if task == "regress" else "cls"}
    elif name != "distilbert":
        values |= {"type_vocab_size": 1 if "roberta" in name else 2}
    # with a head for whole texts of the small shape, whose embeddings are narrower
    values |= {"embedding_size": 18 if task == "tag" else 7} if name == "electra" else {}
    if labels := LABELS[task]:
        values |= {"id2label": dict(enumerate(labels)), "label2id": {label: n for n, label in enumerate(labels)}}
    torch.manual_seed(len(name) + len(task))
    model = cls(cls.config_class(**{**values, **changes})).eval()
    with torch.no_grad():
        for tensor in model.state_dict().values():
            if tensor.is_floating_point():
                tensor.copy_(tensor + NOISE * torch.randn_like(tensor))
    model.save_pretrained(folder)
    return model, words


CLASSES = ["cat", "dog", "owl"]
PIXELS = {"hidden_size": 18, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 22}
PIXELS |= {"patch_size": 5, "num_channels": 3, "id2label": dict(enumerate(CLASSES))}
PIXELS |= {"label2id": {label: number for number, label in enumerate(CLASSES)}}
PROCESSOR = {"do_resize": True, "resample": 2, "do_rescale": True, "rescale_factor": 1 / 255, "do_normalize": True}
PROCESSOR |= {"image_mean": [0.5, 0.4, 0.3], "image_std": [0.2, 0.3, 0.4], "image_processor_type": "ViTImageProcessor"}


def picture_reader(folder, kind="ViT", size=(10, 15)):
    """A classifier of images with random weights, and how pictures become numbers."""
    cls = getattr(transformers, f"{kind}ForImageClassification")
    torch.manual_seed(3)
    model = cls(cls.config_class(**PIXELS, image_size=size[0] if size[0] == size[1] else list(size))).eval()
    with torch.no_grad():
        for tensor in model.state_dict().values():
            tensor.copy_(tensor + NOISE * torch.randn_like(tensor))
    model.save_pretrained(folder)
    processor = {**PROCESSOR, "size": {"height": size[0], "width": size[1]}}
    (folder / "preprocessor_config.json").write_text(json.dumps(processor))
    return cls.from_pretrained(folder, attn_implementation="eager").eval()


def edited(folder, file="config.json", **values):
    """Changes keys of a JSON file."""
    path = folder / file
    path.write_text(json.dumps(json.loads(path.read_text()) | values))
