"""The modules that `mutations` changes, their tests, and the changes that nobody could notice."""

# module -> its test files
TESTS = {
    "pipelines/instances/pairs": [
        "tests/pipelines/instances/test_pairs.py",
        "tests/pipelines/instances/test_reference.py",
    ],
    "pipelines/instances/masking": [
        "tests/pipelines/instances/test_masking.py",
        "tests/pipelines/instances/test_reference.py",
    ],
    "pipelines/instances/building": ["tests/pipelines/instances/test_building.py"],
    "pipelines/instances/compact_documents": ["tests/pipelines/instances/test_building.py"],
    "pipelines/text/filters": ["tests/pipelines/text/test_filters.py"],
    "pipelines/text/cleaning": ["tests/pipelines/text/test_cleaning.py"],
    "pipelines/tasks/metrics": ["tests/pipelines/tasks/test_metrics.py"],
    "pipelines/tasks/entities": ["tests/pipelines/tasks/test_entities.py"],
    "pipelines/tasks/squad_scoring": ["tests/pipelines/tasks/test_squad_scoring.py"],
    "pipelines/evaluation/blessing": ["tests/pipelines/evaluation/test_blessing.py"],
    "pipelines/evaluation/intervals": ["tests/pipelines/evaluation/test_intervals.py"],
    "pipelines/evaluation/outcomes": ["tests/pipelines/evaluation/test_outcomes.py"],
    "pipelines/records/statistics": ["tests/pipelines/records/test_statistics.py"],
    "pipelines/records/figures": ["tests/pipelines/records/test_figures.py"],
    "pipelines/corpus/gutenberg": ["tests/pipelines/corpus/test_gutenberg.py"],
    "pipelines/vocabulary_learning/learning": [
        "tests/pipelines/vocabulary_learning/test_learning.py"
    ],
    "trainer/loop/optimization": ["tests/trainer/loop/test_optimization.py"],
    "trainer/pretraining/dealing": ["tests/trainer/pretraining/test_dealing.py"],
}

# module -> change, as `mutations` prints it -> why it can't be noticed
EQUIVALENT: dict[str, dict[str, str]] = {}
