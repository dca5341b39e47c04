"""Writes by a folder of Hugging Face transformers: python transformers_pipeline.py FOLDER TEXT ..."""

import sys

from transformers import AutoConfig, AutoModelForSeq2SeqLM, AutoTokenizer, pipeline

folder, *texts = sys.argv[1:]
if not AutoConfig.from_pretrained(folder).is_encoder_decoder:
    # a language model goes on with a text
    for outputs in pipeline("text-generation", model=folder)(texts, max_new_tokens=20):
        print(outputs[0]["generated_text"])
    raise SystemExit

# transformers 5 has no pipeline for translations: its model is called as it is
tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModelForSeq2SeqLM.from_pretrained(folder)
for text in texts:
    written = model.generate(**tokenizer(text, return_tensors="pt"))
    print(tokenizer.decode(written[0], skip_special_tokens=True))
