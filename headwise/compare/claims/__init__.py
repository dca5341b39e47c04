"""The claims: sentences of the literature about attention, each with the experiment that may refute it."""

from headwise.compare.claim import Claim
from headwise.compare.claims import costs, explanations, heads, images, norms, order, paths, scores, sizes, weighing

_MODULES = (scores, costs, paths, norms, weighing, sizes, order, images, explanations, heads)
CLAIMS: dict[str, Claim] = {claim.name: claim for module in _MODULES for claim in module.CLAIMS}
