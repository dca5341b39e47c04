"""Claims about convolution and attention over images, by models that are trained on few and on more of them."""

import datetime
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

from headwise.compare.bench import Bench, Comparison, Design, budget, rates
from headwise.compare.claim import Claim, Evidence
from headwise.compare.claims.weighing import guessed
from headwise.compare.experiment import Arm
from headwise.compare.sides import examples_variance
from headwise.compare.verdicts import Interval, crosses, larger
from headwise.predictors.intervals import Resampled
from headwise.training.ledger import account_each

_WRITTEN = datetime.date(2026, 11, 26)


def _counts(bench: Bench) -> Sequence[int]:
    return (600, 6000, 60_000) if bench.full else (300, 3000)


def _by_count(bench: Bench, counts: Sequence[int]) -> dict[int, Comparison]:
    """Both models trained on so many images, with equal steps; the same runs for both claims."""
    full = bench.full
    # as many parameters, within 3 %
    cnn = () if full else ("model.width=8", "model.stages=2")
    vit = () if full else ("model.d_model=16", "model.d_ff=24", "model.encoder_layers=2", "model.patch=7")
    sides = {"cnn": Arm("fashion-mnist", cnn), "vit": Arm("fashion-mnist-vit", vit)}
    # the same changes of images, and numbers of one kind on every machine
    alike = ["augmentation.shift=1", 'training.precision="fp32"', *budget(700 if full else 100, 64, "sentences")]
    alike += [] if full else ["training.valid_limit=500"]
    return {
        count: bench.train(
            f"{count:,} images",
            Design(
                sides,
                "accuracy",
                [f"data.limit={count}", *alike],
                rates(4e-3 if full else 2.4e-2),
                extensions=int(full),
                limit=None if full else 1000,
            ),
        )
        for count in counts
    }


def _data_hunger(bench: Bench) -> Evidence:
    by_count = _by_count(bench, _counts(bench))
    first, *_, last = by_count.values()
    fallen = [early - late for early, late in zip(first.ahead("cnn", "vit"), last.ahead("cnn", "vit"), strict=True)]
    # the same test images at both ends; the larger value, as if they were others
    spread = first.variance("cnn", "vit") + last.variance("cnn", "vit")
    cells = [
        larger("the lead of the convolution shrinks with data", Interval.of(fallen, variance=spread), 0.01),
        crosses("attention is ahead at the most data", first.difference("cnn", "vit"), last.difference("cnn", "vit")),
    ]
    return cells, [guessed(f"{count:,} images", compared, 0.1) for count, compared in by_count.items()]


def _overfitting(bench: Bench) -> Evidence:
    """What is lost from training to test images, at the fewest images."""
    ((count, compared),) = _by_count(bench, _counts(bench)[:1]).items()
    limit = None if bench.full else 1000
    fitted = {side: _in_training(compared.folders(side), limit) for side in compared.sides}
    seeds = sorted(fitted["vit"].keys() & fitted["cnn"].keys())
    level = [fitted["vit"][seed].value() - fitted["cnn"][seed].value() for seed in seeds]
    ahead = dict(zip(bench.seeds, compared.ahead("cnn", "vit"), strict=True))
    seen = examples_variance(*([fitted[side][seed] for seed in seeds] for side in ("vit", "cnn")))
    gap = Interval.of(
        [gained + ahead[seed] for gained, seed in zip(level, seeds, strict=True)],
        variance=seen + compared.variance("cnn", "vit"),
    )
    # at unequal training accuracy it would measure which one was trained for longer
    bench.notes.append(f"{count:,} images: accuracy in training, attention - convolution: {fmean(level):+.3f}")
    return [larger(f"{count:,} images: attention loses more from training to test", gap, 0.02)], [
        guessed(f"{count:,} images", compared, 0.1)
    ]


def _in_training(runs: Mapping[int, Path], limit: int | None) -> dict[int, Resampled]:
    """By seed, the accuracy on the images of training."""
    accounts = {seed: account_each(run, "train", limit) for seed, run in runs.items()}
    return {seed: scored.rows.resampled("accuracy") for seed, scored in accounts.items() if scored.rows is not None}


CLAIMS = [
    Claim(
        name="transformer-needs-more-data",
        sentence="With few images a convolutional network is ahead, with many a Transformer.",
        source="lecture notes, row S89; Dosovitskiy et al. 2021, An image is worth 16x16 words, arXiv:2010.11929",
        rule=(
            "at equal steps, with rates that validation chose for each number of images, the lead of the convolution"
            " is 1 point or more smaller at the most images than at the fewest, with all of the 95 % interval over"
            " seeds and examples above 0; and it is above 0 at the fewest and below 0 at the most, each with all of it"
        ),
        weakness=(
            "120 steps of 64 (300 and 3,000 images; full: 700) cannot decide where attention overtakes, which takes"
            " millions of images in the source; they are many passes over few images and few over many; a model that"
            " is slow to learn is behind for that alone"
        ),
        across="accuracy, difference",
        written=datetime.date(2026, 11, 27),
        version=4,
        trial=_data_hunger,
    ),
    Claim(
        name="flexible-models-overfit",
        sentence="Attention, which assumes less, loses more from training to test images where they are few.",
        source="lecture notes, row S132",
        rule=(
            "at the fewest images of transformer-needs-more-data, accuracy in training minus that in test is 2"
            " points or more larger for attention than for the convolution, with all of the 95 % interval over seeds"
            " and examples above 0"
        ),
        weakness=(
            "as many steps as in transformer-needs-more-data: neither model fits its training images whole, so "
            "that little can be lost"
        ),
        across="points lost, difference",
        written=datetime.date(2026, 11, 27),
        version=4,
        trial=_overfitting,
    ),
]
