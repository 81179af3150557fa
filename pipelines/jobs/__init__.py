"""Running a Beam job: Beam's flags, input files, progress, output folders, time by stage."""
