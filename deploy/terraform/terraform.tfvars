# All names of the cloud project. Terraform, `python -m beambert.deploy.vertex` and
# `python -m beambert.deploy.vertex.pipeline` read this file. Nothing in it is secret.
project = "my-project"
region  = "us-central1"
# Bucket of corpus, workspace, staging and configuration. Its name must be unique in Google Cloud.
bucket = "my-project-beambert"
# Address that is told of failed runs.
alert_email = "ml-platform@example.com"
# Times at which a run starts, in UTC. Without new files it costs a minute on a small machine.
schedule = "0 3 * * *"
# Training machine, a name in TRAINERS of deploy/vertex/jobs.py.
trainer = "v5e-8-spot"
