"""`python -m headwise`: the command line, also where a launcher such as torchrun starts modules."""

import contextlib
import os
import sys

if __name__ == "__main__":
    # Python looks in the current folder first: a stranger's PIL.py there would be run in place of Pillow
    with contextlib.suppress(OSError):
        if not sys.flags.safe_path and os.path.samefile(sys.path[0] or os.curdir, os.curdir):
            del sys.path[0]
    from headwise.cli.main import run

    run()
