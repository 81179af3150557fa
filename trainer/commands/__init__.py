"""The trainer's commands: their flags, and calling the jobs."""
