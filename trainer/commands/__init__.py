"""The trainer's commands: their flags, and the calls of the jobs."""
