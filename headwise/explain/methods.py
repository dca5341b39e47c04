"""The methods of attribution: for each its title, formula, source, and what it does not say."""

from typing import NamedTuple

# points on the way of integrated gradients; the paper advises 20 to 300
POINTS = 50


class Method(NamedTuple):
    """A method of attribution as help, figures, docs and pages present it.

    Args:
        quantity: what the numbers of its maps are.
        limit: one sentence on what it does not say.
        signed: what the numbers behind the shares are, where they have signs.
        heading: of its table.
        rows, columns: what those of its maps are.
    """

    title: str
    formula: str
    quantity: str
    source: str
    limit: str
    signed: str = ""
    heading: str = "what counts most in each row"
    rows: str = "output"
    columns: str = "input"


METHODS: dict[str, Method] = {
    "norms": Method(
        "norms of transformed values",
        "||A_ij v_j W_o|| of each head, and of the sum of all heads, as shares of a row",
        "share of the norms",
        "Kobayashi et al. 2020, arXiv:2004.10102, eq. 4",
        "It leaves out what the residual connection keeps and what later layers make of it.",
        rows="query",
        columns="key",
    ),
    "rollout": Method(
        "attention rollout",
        "the product of (A + I) / 2 over the layers, A the mean of the heads, in shares; A alone where a layer has no"
        " residual; cross-attention likewise",
        "share by rollout",
        "Abnar and Zuidema 2020, arXiv:2005.00928, section 3; cross-attention is added here",
        "It ignores how large the values are, and takes the residual connection for half of every layer.",
    ),
    "alti": Method(
        "ALTI",
        "the product over the layers of c_ij = max(0, ||y_i|| - ||y_i - T_i(x_j)||) in L1, as shares of a row; y_i is"
        " what a layer makes of i before its feed-forward network, T_i(x_j) what x_j adds to it by all heads, the"
        " residual and the norm",
        "share by ALTI",
        "Ferrando et al. 2022, arXiv:2203.04212, section 3; of encoder-decoders arXiv:2205.11631, section 3",
        "It leaves out the feed-forward networks, and takes nearness to the sum of all for what counts.",
    ),
    "flow": Method(
        "attention flow",
        "the maximum flow from each output to each input through edges of capacity (A + I) / 2, as shares of a row",
        "share of the flows",
        "Abnar and Zuidema 2020, arXiv:2005.00928, section 3; cross-attention and shares are added here",
        "It ignores how large the values are; flows to several inputs need not fit through the network at once.",
    ),
    "gradient": Method(
        "gradient x input",
        "x_j . d log p / d x_j at the vectors of the tokens, or the pixels of a patch",
        "share of |gradient x input|",
        "Shrikumar et al. 2016, arXiv:1605.01713; Simonyan et al. 2013, arXiv:1312.6034",
        "It says nothing beyond a small change of the input: a saturated output has no gradient.",
        "gradient x input",
    ),
    "integrated": Method(
        "integrated gradients",
        f"(x_j - u_j) . the mean of d log p / d x_j at {POINTS} points from u to x, u being unknown tokens, or pixels"
        " of the mean colour; a row sums to about log p(x) - log p(u)",
        "share of |integrated gradients|",
        "Sundararajan et al. 2017, arXiv:1703.01365, eq. 3, at the middle of each step",
        "It does not say what another baseline would give.",
        "integrated gradient, nats",
    ),
    "occlusion": Method(
        "occlusion",
        "log p(x) - log p(x with the unknown token in place of token j, or the mean colour in place of patch j)",
        "share of |loss by occlusion|",
        "Zeiler and Fergus 2014, arXiv:1311.2901, section 2.2; Li et al. 2016, arXiv:1612.08220",
        "It does not say what inputs do together, nor what their neighbours still show of a hidden one.",
        "log-probability lost, nats",
    ),
    "ablation": Method(
        "ablation of heads",
        "log p(x with the output of one head set to zero) - log p(x), over all outputs together",
        "share of |change by muting|",
        "Michel, Levy and Neubig 2019, arXiv:1905.10650, section 3; Voita et al. 2019, arXiv:1905.09418",
        "It says nothing of inputs, and heads that can stand in for each other look needless one by one.",
        "change of log-probability, nats",
        "the heads whose muting changes most",
        "layer",
        "head",
    ),
    "lens": Method(
        "logit lens",
        "the probability of each output, were the rest of the model to read block l in place of the last one",
        "probability",
        "nostalgebraist 2020, 'interpreting GPT: the logit lens'; Belrose et al. 2023, arXiv:2303.08112",
        "It misses what a block knows in a form that only later blocks read: nothing trained it to be read so early.",
        heading="the outputs that are most probable after each block",
        rows="block",
        columns="output",
    ),
    "patching": Method(
        "activation patching",
        "(log p(y) with block l at place j taken from the input - log p(y) of the other) / (the whole difference)",
        "part of the difference that comes back",
        "Vig et al. 2020, arXiv:2004.12265; Meng et al. 2022, arXiv:2202.05262, section 2.1 (causal tracing)",
        "It does not say what other inputs would show; a place that restores all need not be the only one.",
        "part of the difference that comes back",
        "the places that bring back most of the difference",
        "block",
        "place",
    ),
}


def page() -> str:
    """The methods in Markdown, for the docs."""
    return "\n\n".join(
        f"### `{name}`: {method.title}\n\n    {method.formula}\n\n{method.limit}\nSource: {method.source}."
        for name, method in METHODS.items()
    )
