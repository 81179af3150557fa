"""The other systems' side of benchmarks: scripts for the interpreters that have those systems."""
