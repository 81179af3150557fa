"""Running a Beam job: Beam's flags, inputs, progress, outputs, where the time goes."""
