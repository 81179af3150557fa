"""Runs the commands on a schedule and in the cloud: retraining, jobs, images."""
