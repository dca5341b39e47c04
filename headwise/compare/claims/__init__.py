"""The claims: sentences of the literature about attention, each with the experiment that may refute it."""

from headwise.compare.claim import Claim
from headwise.compare.claims import costs, norms, paths, scores

CLAIMS: dict[str, Claim] = {claim.name: claim for module in (scores, costs, paths, norms) for claim in module.CLAIMS}
