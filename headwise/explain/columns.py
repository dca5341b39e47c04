"""A layer trace with vectors as columns, O = V softmax(K^T Q), in place of rows, O = softmax(Q K^T) V."""

import re
from dataclasses import replace

from headwise.explain.layer_trace import LayerTrace, TracedStep

# what stands in a formula of rows, and in that of columns; i is a query and j a key in both
_FORMULAS = (
    (r"^(\S+) = (\S+) W_(\w+)", r"\1 = W_\3^\\top \2"),
    (r"^(\S+) = (c\\, )?(\S+?)(\\,| )(\S+)\^\\top$", r"\1 = \2\5^\\top\4\3"),
    (r"^O = A V", r"O = V A"),
    (r"^H = \[O_1 \\dots O_h\]", r"H = [O_1; \\dots; O_h]"),
    (r"_\{i([jk])\}", r"_{\1i}"),
)
_TEXTS = (
    ("a row of shares", "a column of shares"),
    ("of each row", "of each column"),
    ("the sum of its row", "the sum of its column"),
    ("side by side", "one below the other"),
)


def as_columns(trace: LayerTrace) -> LayerTrace:
    r"""The same numbers with every vector a column: all matrices are transposed, and products are in the other order.

    Weighted values stay a table for each query, with a column for each key. Steps have no workings: their rules speak
    of rows.

    Source: Lee, LeeDL tutorial, figures 6.22 to 6.28 (columns); Vaswani et al. 2017, arXiv:1706.03762, eq. 1 (rows).

    >>> from headwise.explain.layer_trace import example_trace
    >>> trace = as_columns(example_trace("illustrated"))
    >>> print(trace["scores"].formula, "and", trace["output"].formula)
    S = K^\top Q and O = V A
    >>> trace["query"].axes, trace["query"].values.astype(int).tolist()
    (('features', 'queries'), [[1, 2, 2], [0, 2, 1], [2, 2, 3]])
    """
    return replace(trace, steps=[_as_columns(step) for step in trace.steps], parameters={})


def _as_columns(step: TracedStep) -> TracedStep:
    formula, text = step.formula, step.text
    for rows, columns in _FORMULAS:
        formula = re.sub(rows, columns, formula)
    for words, others in _TEXTS:
        text = text.replace(words, others)
    axes = (*step.axes[:-2], step.axes[-1], step.axes[-2])
    values = step.values.swapaxes(-1, -2)
    return replace(step, formula=formula, axes=axes, values=values, text=text, working=None)
