"""Values of a pre-training that need or exclude each other, from Python and the command line."""

import pytest

from beambert.errors import InputError
from beambert.trainer.commands import pretrain
from beambert.trainer.loop.config import TrainingFolders
from beambert.trainer.pretraining.job import PretrainingJob

REFUSED = {
    "--model=tiny: --init already sets the model": {"init": "encoder", "model": "tiny"},
    "--family=albert: --init already sets the family": {"init": "encoder", "family": "albert"},
    "--initializer_range=0.1: the weights are those of --init": {
        "init": "encoder",
        "initializer_range": 0.1,
    },
    "--init_positions=tile: needs --init": {"init_positions": "tile"},
    "--init_tokens=average: needs --init": {"init_tokens": "average"},
    "--generator_size=0.5: needs --objective=rtd": {"generator_size": 0.5},
    r"--long_data_share=1.0: must be in \(0, 1\)": {"long_data_share": 1.0},
    "--batch_ramp_share=1.7: must be at least 0": {"batch_ramp_share": 1.7},
}


@pytest.mark.parametrize(
    "flags, message",
    [
        (["--decay_share=0.3"], "--decay_share=0.3: needs --schedule=trapezoid; leave it out"),
        (["--long_data_share=0.5"], "--long_data_share=0.5: needs --long_data; leave it out"),
    ],
)
def test_shares_without_effect(tmp_path, flags, message):
    arguments = ["--data=records", f"--model_dir={tmp_path}"]
    with pytest.raises(InputError, match=f"^{message}$"):
        pretrain.check_values([*arguments, *flags])
    pretrain.check_values([*arguments, *flags, "--schedule=trapezoid", "--long_data=longer"])


@pytest.mark.parametrize("message, values", REFUSED.items())
def test_what_excludes_each_other(tmp_path, message, values):
    with pytest.raises(InputError, match=f"^{message}"):
        PretrainingJob(data="records", output=TrainingFolders.of("model"), **values)
    flags = [f"--{name}={value}" for name, value in values.items()]
    with pytest.raises(InputError, match=f"^{message}"):
        pretrain.main(["--data=records", f"--model_dir={tmp_path}", *flags])
