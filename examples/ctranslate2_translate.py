"""Translates by a folder of CTranslate2: python ctranslate2_translate.py FOLDER SENTENCE ..."""

import sys
from pathlib import Path

import ctranslate2
from tokenizers import Tokenizer

folder, *sentences = sys.argv[1:]
source = Tokenizer.from_file(f"{folder}/tokenizer.json")
# a vocabulary of its own for what is written, if there is one
target_file = Path(folder) / "target_tokenizer.json"
target = Tokenizer.from_file(str(target_file)) if target_file.exists() else source

translator = ctranslate2.Translator(folder)
results = translator.translate_batch([source.encode(sentence).tokens for sentence in sentences], beam_size=5)
for result in results:
    ids = [target.token_to_id(token) for token in result.hypotheses[0]]
    print(target.decode(ids))
