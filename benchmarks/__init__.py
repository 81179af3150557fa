"""Benchmarks. Each script answers one question with a ratio to something that anyone can run."""
