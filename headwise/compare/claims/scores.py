"""Claims about scores and their softmax."""

import datetime
import math
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from headwise.compare.claim import Claim, Evidence
from headwise.compare.costs import exponent
from headwise.compare.verdicts import Control, Interval, above, below, larger, near

_WRITTEN = datetime.date(2026, 11, 25)
Draw = Callable[[tuple[int, ...], torch.Generator], Tensor]


def _normal(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    return torch.randn(shape, generator=generator)


def _uniform(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    return (torch.rand(shape, generator=generator) - 0.5) * math.sqrt(12)


def _student(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Student's t of 5 degrees of freedom, with variance 1."""
    squares = sum(torch.randn(shape, generator=generator) ** 2 for _ in range(5))
    return torch.randn(shape, generator=generator) / torch.as_tensor(squares / 5).sqrt() / math.sqrt(5 / 3)


def _variance(full: bool) -> Evidence:
    """The power of the width that scores grow with: their variance, and once scaled their second moment."""
    pairs, draws = (20_000, 10) if full else (4_000, 5)
    widths = [2**power for power in range(2, 11 if full else 9)]
    kinds: dict[str, Draw] = {"normal": _normal, "uniform": _uniform, "Student's t (5)": _student}

    def slopes(draw: Draw, correlation: float, *, scaled: bool) -> Interval:
        powers = []
        for seed in range(draws):
            generator, moments = torch.Generator().manual_seed(seed), []
            for width in widths:
                query, other = draw((pairs, width), generator), draw((pairs, width), generator)
                key = correlation * query + math.sqrt(1 - correlation**2) * other
                products = (query * key).sum(-1).double()
                moments.append(float((products / math.sqrt(width)).square().mean() if scaled else products.var()))
            powers.append(exponent(widths, moments).value)
        return Interval.of(powers)

    cells = [near(f"variance, {name}", slopes(draw, 0.0, scaled=False), 1.0, 0.02) for name, draw in kinds.items()]
    for correlation in (0.0, 0.1, 0.5):
        where = "independent queries and keys" if not correlation else f"queries and keys correlated by {correlation}"
        cells.append(near(f"size after scaling, {where}", slopes(_normal, correlation, scaled=True), 0.0, 0.02))
    unit = slopes(
        lambda shape, generator: torch.nn.functional.normalize(_normal(shape, generator), dim=-1), 0.0, scaled=False
    )
    return cells, [Control("scores of unit vectors shrink with the width", unit.high < -0.9, unit.value)]


def _saturation(full: bool) -> Evidence:
    keys, draws = 32, 20
    cells = []
    entropies: list[float] = []
    for width in (8, 64, 512) if full else (8, 64):
        gains: dict[str, list[float]] = {"entropy, nats": [], "trace of the derivative": []}
        unscaled = list[float]()
        for seed in range(draws):
            generator = torch.Generator().manual_seed(seed)
            scores = (_normal((64, width), generator) @ _normal((keys, width), generator).mT).double()
            plain, scaled = scores.softmax(-1), (scores / math.sqrt(width)).softmax(-1)
            entropy = [float(-(w * w.clamp_min(1e-300).log()).sum(-1).mean()) for w in (plain, scaled)]
            trace = [float((w * (1 - w)).sum(-1).mean()) for w in (plain, scaled)]
            gains["entropy, nats"].append(entropy[1] - entropy[0])
            gains["trace of the derivative"].append(trace[1] - trace[0])
            unscaled.append(trace[0] / (1 - 1 / keys))
            entropies += entropy
        cells.append(below(f"unscaled, share of the largest derivative, width {width}", Interval.of(unscaled), 0.5))
        cells += [larger(f"gain of {what}, width {width}", Interval.of(gain), 0.1) for what, gain in gains.items()]
    return cells, [
        Control("no entropy exceeds that of uniform weights", max(entropies) <= math.log(keys), max(entropies))
    ]


def _tied(full: bool) -> Evidence:
    """The mean weight of a token on itself where queries are keys."""
    length, draws = 16, 20 if full else 8

    def diagonal(model: int, width: int, generator: torch.Generator, *, smooth: bool, tied: bool) -> float:
        x = _normal((length, model), generator)
        if smooth:
            x = x.cumsum(0) / torch.arange(1, length + 1).sqrt().unsqueeze(-1)
        project = [_normal((model, width), generator) / math.sqrt(model) for _ in range(2)]
        query, key = x @ project[0], x @ project[0 if tied else 1]
        return float((query @ key.mT / math.sqrt(width)).softmax(-1).diagonal().mean())

    def mean(model: int, width: int, *, smooth: bool = False, tied: bool = True) -> Interval:
        return Interval.of(
            [
                diagonal(model, width, torch.Generator().manual_seed(seed), smooth=smooth, tied=tied)
                for seed in range(draws)
            ]
        )

    cells = [above(f"independent tokens, width {width}", mean(width, width), 0.9) for width in (16, 64, 256)]
    cells.append(above("independent tokens, a head of 8 of 64", mean(64, 8), 0.9))
    cells += [above(f"smooth tokens, width {width}", mean(width, width, smooth=True), 0.9) for width in (16, 64, 256)]
    apart = mean(64, 64, tied=False)
    return cells, [Control("separate projections give a token no more than others", apart.high < 0.2, apart.value)]


def excess(target: Float[Tensor, "rows columns"], rank: int, steps: int, seed: int) -> float:
    """The mean Kullback-Leibler divergence, in nats, of rows of weights from the best softmax of scores of a rank."""
    generator = torch.Generator().manual_seed(seed)
    factors = [_normal((size, rank), generator).double().div(rank**0.25).requires_grad_(True) for size in target.shape]
    optimizer = torch.optim.LBFGS(factors, max_iter=steps, history_size=20, line_search_fn="strong_wolfe")

    def divergence() -> Tensor:
        fitted = (factors[0] @ factors[1].mT).log_softmax(-1)
        return (target * (target.clamp_min(1e-300).log() - fitted)).sum(-1).mean()

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = divergence()
        loss.backward()
        return loss

    optimizer.step(closure)
    with torch.no_grad():
        return divergence().item()


def _planted(count: int, rank: int, steps: int, spread: float) -> Control:
    """The ceiling: weights that have a rank are fitted by it, so that what others lose is no failure of the search."""
    generator = torch.Generator().manual_seed(50)
    factors = [_normal((count, rank), generator).double() / rank**0.25 for _ in range(2)]
    lost = excess((spread * (factors[0] @ factors[1].mT) / rank**0.5).softmax(-1), rank, steps, 0)
    return Control(f"weights of rank {rank} are fitted by scores of that rank", lost < 1e-3, lost)


def _fits(count: int, ranks: tuple[int, ...], draws: int, steps: int, spread: float) -> dict[int, Interval]:
    """By rank, what is lost of drawn rows of weights that have full rank."""
    excesses: dict[int, list[float]] = {rank: [] for rank in ranks}
    for seed in range(draws):
        scores = spread * _normal((count, count), torch.Generator().manual_seed(100 + seed)).double()
        for rank in ranks:
            excesses[rank].append(excess(scores.softmax(-1), rank, steps, seed))
    return {rank: Interval.of(values) for rank, values in excesses.items()}


def _narrow_heads(full: bool) -> Evidence:
    length = 32 if full else 16
    ranks = (length // 8, length // 4, length // 2)
    fits = _fits(length, (*ranks, length), 10 if full else 5, 2000, 2.0)
    cells = [larger(f"{length} tokens, heads of {rank}", fits[rank], 0.01) for rank in ranks]
    return cells, [
        *(_planted(length, rank, 2000, 2.0) for rank in ranks),
        Control(
            "a head as wide as the sequence is long fits any weights", fits[length].high < 1e-3, fits[length].value
        ),
    ]


def _bottleneck(full: bool) -> Evidence:
    words = 128 if full else 64
    ranks = (words // 16, words // 8, words // 4)
    fits = _fits(words, (*ranks, words), 5 if full else 3, 2000, 2.0)
    cells = [larger(f"{words} words, width {rank}", fits[rank], 0.1) for rank in ranks]
    planted = [_planted(words, rank, 2000, 2.0) for rank in ranks]
    return cells, [*planted, Control("a width of all words fits any table", fits[words].high < 1e-3, fits[words].value)]


CLAIMS = [
    Claim(
        name="score-variance-grows-with-width",
        sentence=("The variance of q . k is the width of a head, so that scores divided by its root keep their size."),
        source="Vaswani et al. 2017, Attention is all you need, section 3.2.1, arXiv:1706.03762",
        rule=(
            "over draws, the variance grows with a power of the width of 1 +- 0.02, and the second moment of scaled "
            "scores with one of 0 +- 0.02, with all of the 95 % interval; a cell for each distribution and "
            "correlation"
        ),
        weakness=(
            "vectors are drawn; those of trained models are correlated, whose scores keep their size in part "
            "alone, as two conditions show"
        ),
        across="power of the width",
        written=_WRITTEN,
        measure=_variance,
    ),
    Claim(
        name="scaling-prevents-saturation",
        sentence="Without 1 / sqrt(d) softmax saturates, and its derivative vanishes.",
        source="Vaswani et al. 2017, Attention is all you need, section 3.2.1, arXiv:1706.03762",
        rule=(
            "without scaling the trace of the softmax's derivative over 32 keys is below half of its largest, that of"
            " even weights, with all of the 95 % interval over draws; scaling raises it, and the entropy of weights, by"
            " 0.1 or more, with all of the interval of paired draws above 0; a cell for each width"
        ),
        weakness=(
            "queries and keys are drawn with variance 1, and nothing is trained: smaller initial matrices shrink "
            "scores as well, and training may undo either"
        ),
        across="share, or gain by scaling",
        written=datetime.date(2026, 11, 27),
        version=2,
        measure=_saturation,
    ),
    Claim(
        name="tied-queries-and-keys-give-the-identity",
        sentence="Where queries are keys, each token attends to itself alone.",
        source="lecture notes; Kitaev et al. 2020, Reformer, arXiv:2001.04451, trains with them",
        rule=(
            "the mean weight of a token on itself is above 0.9 with all of its 95 % interval, refuted where all of it"
            " is below; a cell for each width and kind of token"
        ),
        weakness=(
            "16 tokens, and more of them share the weight; tokens and projections are drawn; training can move both, "
            "and real tokens lie between independent and smooth ones"
        ),
        across="mean weight on itself",
        written=_WRITTEN,
        measure=_tied,
    ),
    Claim(
        name="narrow-heads-limit-weights",
        sentence="A head that is narrower than the sequence is long cannot give every pattern of weights.",
        source="Bhojanapalli et al. 2020, Low-rank bottleneck in multi-head attention, arXiv:2002.07028",
        rule=(
            "the best fit of drawn weights by scores of that rank loses 0.01 nats or more, with all of the 95 % "
            "interval above 0; a cell for each width"
        ),
        weakness=(
            "weights are drawn, with full rank and sharp, of scores of standard deviation 2; those that a task"
            " needs may"
            " be neither"
        ),
        across="nats lost",
        written=datetime.date(2026, 11, 27),
        version=2,
        measure=_narrow_heads,
    ),
    Claim(
        name="narrow-outputs-limit-language-models",
        sentence="A softmax over words whose states are narrow cannot give every distribution.",
        source="Yang et al. 2018, Breaking the softmax bottleneck, arXiv:1711.03953",
        rule=(
            "the best fit of drawn tables of following words by logits of that rank loses 0.1 nats or more, with all "
            "of the 95 % interval above 0; a cell for each width"
        ),
        weakness="tables are drawn, with full rank; following words in a language may need less",
        across="nats lost",
        written=datetime.date(2026, 11, 27),
        version=2,
        measure=_bottleneck,
    ),
]
