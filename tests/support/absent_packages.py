"""Python that runs as where packages are not installed, for a process of its own."""

import textwrap
from collections.abc import Iterable

BEAM_PACKAGES = ("apache_beam", "tfx_bsl", "tensorflow_model_analysis")


def without(packages: Iterable[str]) -> str:
    """Returns code after which importing one of these packages fails."""
    return textwrap.dedent(
        f"""
        import sys
        class Absent:
            def find_spec(self, name, path=None, target=None):
                if name.split(".")[0] in {tuple(packages)!r}:
                    raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
        sys.meta_path.insert(0, Absent())
        """
    )
