"""Imports Gradio without the half of the work that only others need."""

import contextlib
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Sequence
from types import ModuleType

# This module makes Gradio parse the source of each of its components at every import, and write a
# stub file for editors beside it.
_STUBS, _WRITE = "gradio.component_meta", "create_or_modify_pyi"
# Gradio spells it so.
_BACKEND = "MatplotlibBackendMananger"


class _WithoutStubs(importlib.abc.MetaPathFinder):
    """Finds Gradio's components without the function that writes their stub files."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Returns the specification of the one module that is changed; None for all others."""
        if name != _STUBS:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def execute_without(module: ModuleType) -> None:
            execute(module)
            setattr(module, _WRITE, lambda *_: None)

        spec.loader.exec_module = execute_without
        return spec


def import_gradio() -> ModuleType:
    """Imports Gradio without the stubs, which halves the processor time, and without Matplotlib.

    Around each call Gradio sets Matplotlib's backend, and fails where Matplotlib appears between
    the beginning and the end of a call. This page draws without Matplotlib.
    """
    finder = _WithoutStubs()
    sys.meta_path.insert(0, finder)
    try:
        import gradio
        import gradio.utils
    finally:
        sys.meta_path.remove(finder)
    setattr(gradio.utils, _BACKEND, contextlib.nullcontext)
    return gradio
