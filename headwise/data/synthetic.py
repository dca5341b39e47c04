"""Problems whose examples are drawn, not collected: what attention can learn and other encoders cannot."""

import itertools
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from headwise.errors import ConfigError, DataError, unknown
from headwise.files import replacing

PARTS = ("train", "valid", "test", "longer")
# the name of a part whose inputs are so many times as long as the longest one to train on
TIMES = "times-"
# draws for each example that is wanted, before a held-out part is said to have too few
_PATIENCE = 50
_OPENING = {"(": ")", "[": "]"}
# between the input and the answer of one sequence, behind the answer, and the tag of what is not to be answered
BREAK, END, UNTAGGED = "=", ".", "-"


@dataclass(frozen=True)
class Problem:
    """One kind of examples.

    Args:
        names: of the two columns of a file; None: a file of pairs, which has none.
        lengths: the shortest that it can have and the longest, if no other is asked for, in symbols.
        draw: (random numbers, length, symbols) -> input and answer; where there is an amount, it comes last.
        amount: what is drawn with, unless another one is asked for: the least that it can be, and the usual one.
        spread: letters that a unit of the amount takes.
        tagged: an answer for each symbol; files have a symbol and its answer a line, and a blank line between inputs.
    """

    about: str
    names: tuple[str, str] | None
    lengths: tuple[int, int]
    draw: Callable[..., tuple[str, str]]
    amount: tuple[int, int] | None = None
    tagged: bool = False
    spread: int = 0

    def lines(self, rows: Iterable[tuple[str, str]]) -> str:
        """The content of a file."""
        if self.tagged:
            pairs = (zip(text.split(), answer.split(), strict=True) for text, answer in rows)
            return "\n".join("".join(f"{word}\t{tag}\n" for word, tag in words) for words in pairs)
        return "".join("\t".join(row) + "\n" for row in [*([self.names] if self.names else []), *rows])

    def as_tagged(self) -> "Problem":
        """The same examples in one sequence for a causal tagger: input, `=`, answer; a tag is the symbol to follow.

        Raises: ConfigError: answers are no sequences.
        """
        if self.tagged:
            return self
        if self.names is not None:
            raise ConfigError(f"an example of this problem has one label, {self.about}; leave --tagged out")

        def draw(*drawn: Any) -> tuple[str, str]:
            text, answer = self.draw(*drawn)
            whole = f"{text} {BREAK} {answer}"
            return whole, " ".join([UNTAGGED] * len(text.split()) + [answer, END])

        return replace(self, draw=draw, tagged=True)


@dataclass(frozen=True)
class Sizes:
    """How many examples, how long, of how many symbols.

    Args:
        count: examples to train on.
        symbols: different symbols, from 2 to 26.
        shortest, longest: symbols of an input; None: as the problem says. The part `longer` has up to twice as many.
        held_out: examples of each other part; None: a tenth of `count`.
        amount: what a problem is drawn with: of `shift` places, of `hops` steps, of `match` letters; None: as it says.
        times: for each number a part `times-N` besides, whose inputs are all so many times as long as the longest.
    Raises: ConfigError: sizes that cannot be.
    """

    count: int = 10_000
    symbols: int = 12
    shortest: int | None = None
    longest: int | None = None
    held_out: int | None = None
    amount: int | None = None
    times: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.count < 1:
            raise ConfigError(f"count ({self.count}) must be 1 or more")
        if self.held_out is not None and self.held_out < 1:
            raise ConfigError(f"held_out ({self.held_out}) must be 1 or more")
        if not 2 <= self.symbols <= 26:
            raise ConfigError(f"symbols ({self.symbols}) must lie between 2 and 26, the letters there are")
        if len(set(self.times)) != len(self.times) or min(self.times, default=1) < 1:
            raise ConfigError(f"lengths ({','.join(map(str, self.times))}) must be different numbers, 1 or more")

    def lengths(self, problem: str, definition: Problem | None = None) -> tuple[int, int]:
        """The shortest and the longest input. Raises: ConfigError for an unknown problem, or lengths it cannot have."""
        low, high = (definition or _problem(problem)).lengths
        shortest = low if self.shortest is None else self.shortest
        longest = max(high, shortest) if self.longest is None else self.longest
        if not low <= shortest <= longest:
            raise ConfigError(
                f"shortest ({shortest}) must be {low} or more for '{problem}', and at most longest ({longest})"
            )
        return shortest, longest

    def amounts(self, problem: str, definition: Problem | None = None) -> list[int]:
        """What the problem draws with beside length and symbols: nothing, or its amount.

        Raises: ConfigError for an amount that it does not have, or one that is too small or too large.
        """
        definition = definition or _problem(problem)
        known = definition.amount
        if known is None:
            if self.amount is not None:
                raise ConfigError(f"'{problem}' has no amount; leave it out")
            return []
        amount = known[1] if self.amount is None else self.amount
        if amount < known[0]:
            raise ConfigError(f"amount ({amount}) must be {known[0]} or more for '{problem}'")
        if definition.spread * amount >= self.symbols:
            raise ConfigError(f"amount ({amount}) must be less than half of symbols ({self.symbols}) for '{problem}'")
        return [amount]


def stream(
    problem: str, seed: int, part: str, sizes: Sizes, definition: Problem | None = None
) -> Iterator[tuple[str, str]]:
    """The examples of a part without end: (input, answer), each determined by seed, part and place alone.

    Args:
        definition: of a problem that `PROBLEMS` lacks.

    Raises: ConfigError for an unknown problem, or sizes that it cannot have.

    >>> next(stream("reverse", 1, "train", Sizes(symbols=3, shortest=4, longest=4)))
    ('a b a c', 'c a b a')
    """
    definition = definition or _problem(problem)
    low, high = sizes.lengths(problem, definition)
    amounts = sizes.amounts(problem, definition)
    if part == "longer":
        low, high = high + 1, 2 * high
    if part.startswith(TIMES):
        low = high = high * int(part.removeprefix(TIMES))
    letters = [chr(ord("a") + number) for number in range(sizes.symbols)]

    def drawn() -> Iterator[tuple[str, str]]:
        for place in itertools.count():
            # a text as seed goes through SHA-512: the same numbers everywhere
            numbers = random.Random(f"{problem} {seed} {part} {place}")
            yield definition.draw(numbers, numbers.randint(low, high), letters, *amounts)

    return drawn()


def make(
    problem: str, folder: Path, seed: int = 1, sizes: Sizes | None = None, definition: Problem | None = None
) -> dict[Path, int]:
    """Writes the files `train`, `valid`, `test` and `longer` of a problem: the same bytes for the same seed.

    Lines are as `Problem.lines` says. An input that is trained on is in no other part.

    Args:
        definition: of a problem that `PROBLEMS` lacks.

    Returns: the files, and how many examples each has.

    Raises:
        ConfigError: an unknown problem, sizes that do not fit it, or too few different inputs of these sizes.
        DataError: the folder holds other data under one of these names.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as name:
    ...     found = make("sort", Path(name) / "sort", sizes=Sizes(count=20))
    ...     print({path.name: count for path, count in found.items()})
    {'train.tsv': 20, 'valid.tsv': 2, 'test.tsv': 2, 'longer.tsv': 2}
    """
    sizes = sizes or Sizes()
    definition, trained = definition or _problem(problem), set[str]()
    contents, counts = dict[Path, str | bytes](), dict[Path, int]()
    for part in (*PARTS, *(f"{TIMES}{number}" for number in sizes.times)):
        examples = stream(problem, seed, part, sizes, definition)
        if part == "train":
            rows = list(itertools.islice(examples, sizes.count))
            trained = {text for text, _ in rows}
        else:
            rows = _unseen(examples, trained, sizes.held_out or max(1, sizes.count // 10), part)
        path = folder / f"{part}.tsv"
        contents[path] = definition.lines(rows)
        counts[path] = len(rows)
    write_drawn(contents)
    return counts


@dataclass(frozen=True)
class Drawing:
    """A problem as `headwise data make` draws it: `make`, with the sizes as arguments.

    Args:
        definition: of a problem that `PROBLEMS` lacks.
    """

    name: str
    definition: Problem | None = None

    # arguments are the options of `headwise data make`, each by its name
    def __call__(  # noqa: PLR0913
        self,
        folder: Path,
        seed: int,
        count: int,
        *,
        symbols: int = 12,
        shortest: int | None = None,
        longest: int | None = None,
        held_out: int | None = None,
        amount: int | None = None,
        lengths: tuple[int, ...] = (),
        tagged: bool = False,
    ) -> dict[Path, int]:
        problem = self.definition or _problem(self.name)
        sizes = Sizes(count, symbols, shortest, longest, held_out, amount, lengths)
        return make(self.name, folder, seed, sizes, problem.as_tagged() if tagged else problem)


def write_drawn(contents: Mapping[Path, str | bytes]) -> None:
    """Writes the files of drawn data, text as UTF-8. Raises: DataError: other data lies under one of these names."""
    files = {path: text.encode() if isinstance(text, str) else text for path, text in contents.items()}
    for path, data in files.items():
        if path.exists() and path.read_bytes() != data:
            raise DataError(f"{path}: is other data, of another seed or size; remove it, or name another folder")
    for path, data in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary:
            temporary.write_bytes(data)


def _problem(name: str) -> Problem:
    if name not in PROBLEMS:
        raise ConfigError(unknown("problem", name, PROBLEMS))
    return PROBLEMS[name]


def _unseen(examples: Iterator[tuple[str, str]], trained: set[str], count: int, part: str) -> list[tuple[str, str]]:
    tried = itertools.islice(examples, _PATIENCE * count)
    rows = list(itertools.islice((row for row in tried if row[0] not in trained), count))
    if len(rows) < count:
        raise ConfigError(f"{part}: too few inputs of these sizes are left; raise longest or symbols, or lower count")
    return rows


def _some(numbers: random.Random, length: int, letters: list[str]) -> list[str]:
    return [numbers.choice(letters) for _ in range(length)]


def _copy(numbers: random.Random, length: int, letters: list[str]) -> tuple[str, str]:
    text = " ".join(_some(numbers, length, letters))
    return text, text


def _reverse(numbers: random.Random, length: int, letters: list[str]) -> tuple[str, str]:
    text = _some(numbers, length, letters)
    return " ".join(text), " ".join(reversed(text))


def _sort(numbers: random.Random, length: int, letters: list[str]) -> tuple[str, str]:
    text = _some(numbers, length, letters)
    return " ".join(text), " ".join(sorted(text))


def _recall(numbers: random.Random, length: int, letters: list[str]) -> tuple[str, str]:
    text = _some(numbers, length, letters)
    return " ".join(text), text[0]


def _lookup(numbers: random.Random, length: int, letters: list[str]) -> tuple[str, str]:
    """Pairs of a letter and a digit, then one of the letters; the letters differ as far as there are enough."""
    keys = numbers.sample(letters, min(length, len(letters)))
    values = [str(numbers.randrange(10)) for _ in keys]
    index = numbers.randrange(len(keys))
    pairs = [word for pair in zip(keys, values, strict=True) for word in pair]
    return " ".join([*pairs, keys[index]]), values[index]


def _odd(numbers: random.Random, length: int, letters: list[str]) -> tuple[str, str]:
    usual, odd = numbers.sample(letters, 2)
    place = numbers.randrange(length)
    return " ".join(odd if here == place else usual for here in range(length)), odd


def _parity(numbers: random.Random, length: int, letters: list[str]) -> tuple[str, str]:
    bits = [numbers.choice("01") for _ in range(length)]
    # an answer for every place: from the last one alone nothing is learned in a minute
    counts = itertools.accumulate(map(int, bits))
    return " ".join(bits), " ".join(str(count % 2) for count in counts)


def _brackets(numbers: random.Random, length: int, letters: list[str]) -> tuple[str, str]:
    """Half of them balanced; the other half have one bracket turned into another one."""
    text: list[str] = []
    open_brackets: list[str] = []
    length += length % 2
    while len(text) < length:
        room = len(open_brackets) < length - len(text)
        if open_brackets and (not room or numbers.random() < 0.5):
            text.append(_OPENING[open_brackets.pop()])
        else:
            open_brackets.append(numbers.choice("(["))
            text.append(open_brackets[-1])
    if numbers.random() < 0.5:
        return " ".join(text), "balanced"
    place = numbers.randrange(length)
    text[place] = numbers.choice([bracket for bracket in "()[]" if bracket != text[place]])
    return " ".join(text), "broken"


def _match(numbers: random.Random, length: int, letters: list[str], amount: int) -> tuple[str, str]:
    """Pairs as in `lookup`, whose letters lie apart on a circle; the one asked for is off by so many at most."""
    gap = 2 * amount + 1
    count = max(1, min(length, len(letters) // gap))
    # what is left between letters when each has its gap goes to drawn places
    cuts = sorted(numbers.randint(0, len(letters) - count * gap) for _ in range(count))
    turn = numbers.randrange(len(letters))
    places = [(turn + number * gap + cut) % len(letters) for number, cut in enumerate(cuts)]
    numbers.shuffle(places)
    values = [str(numbers.randrange(10)) for _ in places]
    index = numbers.randrange(count)
    question = letters[(places[index] + numbers.randint(-amount, amount)) % len(letters)]
    pairs = [word for place, value in zip(places, values, strict=True) for word in (letters[place], value)]
    return " ".join([*pairs, question]), values[index]


def _shift(numbers: random.Random, length: int, letters: list[str], amount: int) -> tuple[str, str]:
    text = _some(numbers, length, letters)
    return " ".join(text), " ".join(([_NOTHING] * amount + text)[:length])


def _hops(numbers: random.Random, length: int, letters: list[str], amount: int) -> tuple[str, str]:
    """Pairs that form one circle of letters, in drawn order, a word each, and the letter to begin with.

    The way back is longer than the one that is asked for, or a single look at where a letter comes from would do.
    """
    circle = numbers.sample(letters, min(max(2 * amount + 1, length), len(letters)))
    pairs = [first + second for first, second in zip(circle, circle[1:] + circle[:1], strict=True)]
    numbers.shuffle(pairs)
    return " ".join([*pairs, circle[0]]), circle[amount]


def _largest(numbers: random.Random, length: int, letters: list[str]) -> tuple[str, str]:
    """Words of two digits and a letter, of which one has more than all others, and its letter."""
    most = numbers.randrange(1, 100)
    kinds = letters[:_KINDS]
    words = [f"{numbers.randrange(most):02d}{numbers.choice(kinds)}" for _ in range(length)]
    answer = numbers.choice(kinds)
    words[numbers.randrange(length)] = f"{most}{answer}".zfill(3)
    return " ".join(words), answer


def _backcopy(numbers: random.Random, length: int, letters: list[str]) -> tuple[str, str]:
    """A chain behind a mark, each symbol with a few successors, and the symbol that follows each place.

    Behind the last eighth of the letters the symbol before comes again.

    Source: Guo et al. 2024, arXiv:2410.13835, section 2 (bigram-backcopy).
    """
    triggers = letters[-max(1, len(letters) // 8) :]
    # the same successors in every text
    table = random.Random(f"backcopy {len(letters)}")
    following = {letter: table.sample(letters, min(_SUCCESSORS, len(letters))) for letter in letters}
    chain = ["^", numbers.choice(letters)]
    while len(chain) <= length:
        copied = chain[-1] in triggers and chain[-2] != "^"
        chain.append(chain[-2] if copied else numbers.choice(following[chain[-1]]))
    return " ".join(chain[:-1]), " ".join(chain[1:])


_NOTHING = "-"
# letters that words of `largest` have, and symbols that may follow one in `backcopy`
_KINDS, _SUCCESSORS = 4, 3
_TEXTS = ("text", "label")
PROBLEMS: dict[str, Problem] = {
    "copy": Problem("the symbols again", None, (2, 10), _copy),
    "reverse": Problem("the symbols from the last to the first", None, (2, 10), _reverse),
    "sort": Problem("the symbols in the order of the alphabet", None, (2, 10), _sort),
    "recall": Problem("the first symbol, after all others were read", None, (2, 40), _recall),
    "lookup": Problem("the digit that stood after the letter asked for", None, (2, 6), _lookup),
    "odd": Problem("the symbol that is not like all the others", _TEXTS, (3, 10), _odd),
    "parity": Problem("at each place, whether the ones so far are odd in number", None, (2, 16), _parity),
    "brackets": Problem("whether every bracket is closed by its own kind", _TEXTS, (2, 16), _brackets),
    "match": Problem("the digit after the letter nearest to the one asked for", None, (2, 4), _match, (0, 1), spread=2),
    "shift": Problem("at each place, the symbol so many places before", None, (2, 16), _shift, (0, 2), tagged=True),
    "hops": Problem("the letter that pairs lead to in so many steps", _TEXTS, (3, 6), _hops, amount=(1, 2), spread=2),
    "largest": Problem("the letter of the word with the largest number", _TEXTS, (2, 16), _largest),
    "ones": Problem("at each place, whether the ones so far are odd in number", None, (2, 16), _parity, tagged=True),
    "backcopy": Problem("at each place, the next symbol: a chain with copies", None, (2, 32), _backcopy, tagged=True),
}
