"""Images: a class, a label for each pixel, a caption."""

TASKS = ("caption", "image_classify", "image_segment")
