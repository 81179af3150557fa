"""Values that argparse would pass on as something else."""

import pytest

from beambert.pipelines.shared.errors import InputError
from beambert.pipelines.shared.flags import FlagParser


@pytest.mark.parametrize("name", ["output", "fraction"])
def test_two_dashes_are_no_value(name):
    parser = FlagParser(prog="x")
    parser.add_argument("--output")
    parser.add_argument("--fraction", type=float)
    for parse in (parser.parse_args, parser.parse_known_args):
        with pytest.raises(InputError, match=f"^--{name}: -- is no value; see --help$"):
            parse([f"--{name}=--"])
