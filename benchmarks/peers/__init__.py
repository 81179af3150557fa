"""Other systems' side of the benchmarks: scripts for interpreters that have these systems."""
