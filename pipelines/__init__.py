"""From text to pre-training records, and from a model to its evaluation, in Apache Beam."""
