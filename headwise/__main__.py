"""`python -m headwise`: the command line, also where a launcher such as torchrun starts modules."""

import os
import sys

if __name__ == "__main__":
    # Python looks for modules in the current folder first: a stranger's PIL.py there would be run in place of Pillow
    if sys.path and os.path.realpath(sys.path[0]) == os.path.realpath(os.getcwd()):
        del sys.path[0]
    from headwise.cli.main import run

    run()
