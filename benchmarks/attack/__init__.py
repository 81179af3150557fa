"""A bounded campaign of seeded attempts to break the commands.

`mutators` damages bytes and values, and is pure. `material` makes what is sound, which each family
(`corpora`, `tables`, …) damages and gives to a command. `trials` runs the commands and judges how
they end, and `workers` bounds the time and the memory of each attempt.
"""
