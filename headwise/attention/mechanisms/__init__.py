"""What is computed: one mechanism a file; the folder is the registry and a mechanism's name is its file name."""

from headwise.attention.mechanisms.mechanism import Mechanism
from headwise.folders import Folder

_FOLDER = Folder(__name__, Mechanism, "mechanism", ("mechanism",))  # type: ignore[type-abstract]

names = _FOLDER.names
mechanism_type = _FOLDER.find
catalogue = _FOLDER.catalogue
