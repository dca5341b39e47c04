"""Numbers on the wire: NumPy's own file format, half precision where there are more than anybody reads."""

import io

import numpy as np

from headwise.labels import NOISE

# beyond it half precision would be infinite
_HALF = 60_000.0
# numbers whose fourth digit may be read, and compared with that of the steps that make it: 128 tokens by 128
_READ = 1 << 14
MEDIA_TYPE = "application/x-npy"


def halved(values: np.ndarray) -> np.ndarray:
    """The numbers in half precision, exact to 1/2048 of each down to 6e-5; none below 1 becomes 1, and none becomes 0.

    >>> halved(np.array([1.0, 0.99999, 0.0])).tolist()
    [1.0, 0.99951171875, 0.0]
    >>> bool(halved(np.array([1e-30]))[0] > 0)
    True
    """
    half = values.astype("<f2")
    # what is as good as nothing is told from an exact zero
    lost = (half == 0) & (values != 0)
    half[lost] = np.copysign(np.finfo("f2").smallest_subnormal, values[lost])
    # sums of float32 miss 1 by a little
    half[(half == 1) & (values < 1 - NOISE)] = np.nextafter(np.float16(1), np.float16(0))
    return half


def npy(values: np.ndarray, *, single: bool | None = None) -> bytes:
    """An array as the content of a `.npy` file: float32, or float16 where no finite number is too large for it.

    Args:
        single: float32 whatever the numbers are; None: of at most 16,384.

    Integers stay what they are. Minus infinity, the score of a forbidden pair, is kept.

    >>> [np.load(io.BytesIO(npy(np.full(size, 0.5)))).dtype.name for size in (9, 20_000)]
    ['float32', 'float16']
    """
    if values.dtype.kind == "f":
        finite = np.abs(values[np.isfinite(values)])
        exact = values.size <= _READ if single is None else single
        fits = not exact and finite.max(initial=0.0) < _HALF
        values = halved(values) if fits else values.astype("<f4")
    stream = io.BytesIO()
    np.lib.format.write_array(stream, np.ascontiguousarray(values), allow_pickle=False)
    return stream.getvalue()
