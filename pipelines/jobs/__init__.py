"""Running a Beam job: Beam's flags, progress, workers and their errors, time by stage, totals."""
