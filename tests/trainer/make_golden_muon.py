"""Makes golden_muon.npz: matrices after 100 updates by the code of Muon's authors.

    python make_golden_muon.py path/to/muon.py golden_muon.npz

The file is muon.py of github.com/KellerJordan/Muon. Needs torch (made with 2.15.0), which the tests
do not. The iteration is computed in float32 here, not in bfloat16. The authors' scale of a matrix,
the root of rows over columns where there are more rows, is divided out, and that of Liu et al. 2025
(arXiv 2502.16982, equation 4) taken, 0.2 times the root of the greater number.
"""

import pathlib
import sys

import numpy as np
import torch

SHAPES = {"tall": (12, 5), "wide": (5, 12), "square": (8, 8)}
RATE, DECAY, UPDATES = 0.02, 0.1, 100


def main() -> None:
    """Writes each matrix after the updates; the draws are those of the test."""
    muon: dict = {}
    code = pathlib.Path(sys.argv[1]).read_text().replace(".bfloat16()", ".float()")
    exec(compile(code, sys.argv[1], "exec"), muon)
    random = np.random.default_rng(7)
    matrices = {}
    for name, shape in SHAPES.items():
        # A layer of Keras has [inputs, outputs], one of torch [outputs, inputs].
        parameter = torch.tensor(random.standard_normal(shape), dtype=torch.float32).T.contiguous()
        momentum = torch.zeros_like(parameter)
        rows, columns = parameter.shape
        scale = 0.2 * max(rows, columns) ** 0.5 / max(1, rows / columns) ** 0.5
        for step in range(UPDATES):
            drawn = random.standard_normal(shape) * 10.0 ** random.uniform(-3, 1)
            gradient = torch.tensor(drawn, dtype=torch.float32).T.contiguous()
            rate = RATE * (1 - step / UPDATES)
            update = muon["muon_update"](gradient, momentum)
            parameter.mul_(1 - rate * DECAY)
            parameter.add_(update, alpha=-rate * scale)
        matrices[name] = parameter.T.numpy()
    np.savez(sys.argv[2], **matrices)


if __name__ == "__main__":
    main()
