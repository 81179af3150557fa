"""`beambert retrain`: new files to a new served version, if it is better."""
