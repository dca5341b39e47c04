"""Everything that conforms, by name: what is registered, and small builds where a short input fills no default."""

from functools import partial

from headwise import positions
from headwise.attention import mechanisms, normalizers, scores
from headwise.attention.masks import MASKS
from headwise.attention.mechanisms.linear import Hedgehog, Linear, Rectified
from headwise.attention.mechanisms.linformer import Linformer
from headwise.attention.mechanisms.nystrom import Nystrom, ValueConvolution
from headwise.attention.mechanisms.random_synthesizer import RandomSynthesizer
from headwise.attention.mechanisms.reformer import Reformer
from headwise.attention.mechanisms.sinkhorn import Sinkhorn
from headwise.certify import Subject, targets

# a name and its build from (heads, dropout)
SMALL = {
    "linear, hedgehog": lambda heads, dropout: Linear(Hedgehog(4)),
    "linear, rectified": lambda heads, dropout: Linear(Rectified(4, 5)),
    "linformer, rank 2": lambda heads, dropout: Linformer(96, 2, dropout=dropout),
    "nystrom, 2 landmarks": lambda heads, dropout: Nystrom(2, residual=ValueConvolution(heads, 3)),
    "random_synthesizer, fixed": lambda heads, dropout: RandomSynthesizer(heads, 96, learned=False, dropout=dropout),
    "reformer, chunks of 2": lambda heads, dropout: Reformer(4, 96, chunk=2, dropout=dropout),
    "sinkhorn, blocks of 2": lambda heads, dropout: Sinkhorn(4, 96, 2, dropout=dropout),
}
# normalizers that are named with an option
OPTIONS = ("entmax:1.3", "top_k:2", "scalable:0.43", "sigmoid:-1.5")

SUBJECTS = {
    **{name: partial(targets.mechanism, name) for name in mechanisms.names()},
    **{name: partial(Subject, name, make) for name, make in SMALL.items()},
    **{f"score {name}": partial(targets.score, name) for name in scores.SCORES},
    **{f"normalizer {name}": partial(targets.normalizer, name) for name in (*normalizers.NORMALIZERS, *OPTIONS)},
    **{f"mask {name}": partial(targets.mask, name) for name in MASKS},
    **{f"position {name}": partial(targets.position, name) for name in positions.names()},
}
