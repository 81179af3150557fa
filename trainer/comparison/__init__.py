"""Trainings side by side: the settings that differ, the results, the curves."""
