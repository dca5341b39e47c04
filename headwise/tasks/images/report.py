"""What `headwise data report` says of labelled images."""

from collections import Counter

from headwise.data.bad_lines import BadLines
from headwise.data.inspection import DataKind, Inspection, Odd, entries
from headwise.data.splits import files_of
from headwise.tasks.images.images import ImagesConfig, scan_images


def _images(data: ImagesConfig, part: str, held_out: str | None) -> Inspection:
    """Sizes, channels and classes of images; one of a single colour is odd."""
    bad, odd = BadLines("image"), Odd()
    shapes: Counter[str] = Counter()
    labels: Counter[str] = Counter()
    path, target = files_of(data, part)
    for number, image in bad.numbered(scan_images(path, target, data)):
        shapes[str(image.shape)] += 1
        labels[str(image.label)] += 1
        if (image.pixels == image.pixels[0, 0]).all():
            odd.add("one colour", number)
    facts = {"sizes": dict(shapes.most_common()), "classes": dict(labels.most_common())}
    return Inspection(str(path), "images", shapes.total(), bad, odd, facts, entries(facts), "image")


IMAGES = DataKind("images", ImagesConfig, _images)
