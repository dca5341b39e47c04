"""Numbers on the wire: NumPy's own file format, half precision where it is exact enough."""

import io

import numpy as np

# beyond it half precision would be infinite
_HALF = 60_000.0
MEDIA_TYPE = "application/x-npy"


def npy(values: np.ndarray) -> bytes:
    """An array as the content of a `.npy` file: float16 where no finite number is too large for it, else float32.

    Integers stay what they are. Minus infinity, the score of a forbidden pair, is kept.

    >>> np.load(io.BytesIO(npy(np.array([0.5, -np.inf])))).dtype
    dtype('float16')
    """
    if values.dtype.kind == "f":
        finite = np.abs(values[np.isfinite(values)])
        values = values.astype("<f2" if finite.max(initial=0.0) < _HALF else "<f4")
    stream = io.BytesIO()
    np.lib.format.write_array(stream, np.ascontiguousarray(values), allow_pickle=False)
    return stream.getvalue()
