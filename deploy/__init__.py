"""What runs the commands in the cloud and on a schedule: retraining, jobs, images."""
