"""Made dialogues: answers follow from what was told before; files are the same for the same seed."""

import json

import pytest

from headwise.errors import DataError
from headwise.tasks.translation.talk import FACTS, UNKNOWN, dialogue, make


def test_what_is_asked_was_told_last_or_is_not_known():
    asked = far = unknown = 0
    for number in range(300):
        known, when = {}, {}
        turns = dialogue(number, seed=3)
        assert len(turns) in (6, 8, 10, 12)
        for place, (said, answer) in enumerate(zip(turns[::2], turns[1::2], strict=True)):
            for kind, (told, heard, question, reply, words) in FACTS.items():
                if said == question:
                    assert answer == (reply.format(known[kind]) if kind in known else UNKNOWN)
                    asked, unknown = asked + 1, unknown + (kind not in known)
                    far += kind in when and place - when[kind] > 1
                elif said in [told.format(word) for word in words]:
                    known[kind], when[kind] = said.split()[-1], place
                    assert answer == heard.format(known[kind])
    # questions whose answer stands some turns before are there in number
    assert asked > 400
    assert far > 100
    assert 50 < unknown < asked / 2


def test_files_hold_each_dialogue_once(tmp_path):
    made = make(tmp_path, count=200)
    assert {path.name: count for path, count in made.items()} == {
        "train.jsonl": 200,
        "valid.jsonl": 20,
        "test.jsonl": 20,
    }
    rows = [tuple(json.loads(line)["turns"]) for path in made for line in path.read_text().splitlines()]
    assert len(set(rows)) == len(rows) == 240
    assert make(tmp_path, count=200) == made
    with pytest.raises(DataError, match=r"train\.jsonl: is other data, of another seed or size; remove it, or nam"):
        make(tmp_path, seed=2, count=200)
