"""From end to end: trained here, exported, fine-tuned by transformers, imported again, evaluated."""

import json

import pytest
import torch

transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate")

import headwise  # noqa: E402
from headwise.cli.main import main  # noqa: E402
from headwise.export import formats  # noqa: E402
from headwise.training.recipes import read as read_named  # noqa: E402
from headwise.training.train import train  # noqa: E402

SETTINGS = ["data.limit=400", "data.valid_fraction=0.05", "data.test_fraction=0.1", "training.max_steps=30"]
SETTINGS += ["model.d_model=16", "model.d_ff=20", "model.num_heads=2", "model.norm_order=post", "model.activation=silu"]
SETTINGS += ["tokenizer.joint=true", "decoding.method=greedy", "decoding.max_len=12"]
PAIRS = [("go .", "va !"), ("no .", "non ."), ("i know .", "je sais ."), ("we won .", "on a gagné .")]


def fine_tuned(folder, out):
    """A folder after ten steps of `transformers.Trainer` on the pairs; the loss before and after."""
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder)
    tokens = transformers.AutoTokenizer.from_pretrained(folder)
    assert type(model) is transformers.MarianMTModel
    # transformers 5.24 trains these sinusoids, and does not save them
    for side in (model.model.encoder, model.model.decoder):
        side.embed_positions.weight.requires_grad_(False)
    rows = [dict(tokens(source), labels=tokens(target)["input_ids"]) for source, target in PAIRS]
    arguments = transformers.Seq2SeqTrainingArguments(
        out / "trainer",
        max_steps=10,
        per_device_train_batch_size=4,
        learning_rate=1e-2,
        use_cpu=True,
        report_to="none",
        save_strategy="no",
        disable_tqdm=True,
    )
    collator = transformers.DataCollatorForSeq2Seq(tokens, model=model)
    trainer = transformers.Seq2SeqTrainer(
        model, arguments, data_collator=collator, train_dataset=rows, eval_dataset=rows
    )
    before = trainer.evaluate()["eval_loss"]
    trainer.train()
    after = trainer.evaluate()["eval_loss"]
    trainer.save_model(out / "model")
    tokens.save_pretrained(out / "model")
    return model, before, after


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_model_goes_to_transformers_learns_there_and_comes_back(tmp_path, capsys):
    train(read_named("phrasebook", SETTINGS), tmp_path / "run")
    formats.export(tmp_path / "run", "huggingface", tmp_path / "theirs")
    model, before, after = fine_tuned(tmp_path / "theirs", tmp_path)
    assert after < before - 0.1
    assert main(["import", str(tmp_path / "model"), "--to", str(tmp_path / "back")]) == 0
    (tmp_path / "pairs.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in PAIRS))
    losses = []
    for run in ("run", "back"):
        capsys.readouterr()
        assert main(["evaluate", str(tmp_path / run), "--data", str(tmp_path / "pairs.tsv"), "--json"]) == 0
        losses.append(json.loads(capsys.readouterr().out)["loss"])
    # both sides see the same before, and the same after
    assert losses == pytest.approx([before, after], abs=1e-4)
    back = headwise.load(tmp_path / "back")
    batch = back.batch(*map(list, zip(*PAIRS, strict=True)))
    with torch.inference_mode():
        keep = torch.arange(batch.src.shape[1]) < batch.src_lens[:, None]
        theirs = model.eval()(input_ids=batch.src, attention_mask=keep.long(), decoder_input_ids=batch.tgt_in).logits
        torch.testing.assert_close(back.model(batch.src, batch.src_lens, batch.tgt_in), theirs, atol=1e-5, rtol=1e-5)
