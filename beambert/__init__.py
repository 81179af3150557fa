"""BeamBERT: pre-trains BERT on one's own text with Apache Beam and Keras.

The functions and classes for Python programs are attributes of this package: `beambert.pretrain`,
`beambert.PretrainingJob`. Importing the package loads nothing heavy. An attribute loads its library
when it is first asked for, so those of the trainer also work where Apache Beam is not installed.
docs/python.md shows them.
"""

import ast
import importlib
import pathlib

# name -> the module that has it, as the stub lists them.
_MODULES = {
    alias.name: node.module
    for node in ast.parse(pathlib.Path(__file__).with_suffix(".pyi").read_text()).body
    if isinstance(node, ast.ImportFrom)
    for alias in node.names
}
__all__ = list(_MODULES)


def __getattr__(name: str) -> object:
    """Loads what is asked for, quietly."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from beambert.process import loading

    with loading():
        found = getattr(importlib.import_module(_MODULES[name]), name)
    globals()[name] = found  # the next time this function is not called
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
