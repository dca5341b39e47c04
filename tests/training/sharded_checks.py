"""What each of several processes does in test_sharded.py: `python sharded_checks.py CASE FOLDER ...`."""

import os
import sys
from pathlib import Path

import torch
from process_checks import trained


def _trained(kind, folder, steps):
    trained("gathered", Path(folder), kind, max_steps=int(steps))


def _before_the_manifest(kind, folder, rank):
    """This process dies once its part of step 25 is written, before the parts are a checkpoint."""
    from headwise.runs.commits import Draft

    real = Draft.write

    def dying(self, name, content):
        done = real(self, name, content)
        if self.final.name == "step-00000025" and os.environ["RANK"] == rank:
            os._exit(99)
        return done

    Draft.write = dying
    trained("gathered", Path(folder), kind, max_steps=50, save_every=10)


def _unseen(kind, folder):
    """The second process has another folder of this name, as where machines share none."""
    from headwise.runs.commits import Draft

    real = Draft.write

    def unseen(self, name, content):
        if os.environ["RANK"] == "1":
            self = self._replace(path=self.path.with_name("elsewhere"))
        return real(self, name, content)

    Draft.write = unseen
    trained("gathered", Path(folder), kind, max_steps=10, save_every=5, on_disk_full="stop")


if __name__ == "__main__":
    from headwise.errors import HeadwiseError

    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    try:
        {"trained": _trained, "before the manifest": _before_the_manifest, "unseen": _unseen}[sys.argv[1]](
            *sys.argv[2:]
        )
    except HeadwiseError as error:
        if not getattr(error, "reported", False):
            print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
