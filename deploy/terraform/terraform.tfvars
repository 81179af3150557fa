# The one place of names: Terraform, `python -m beambert.deploy.vertex` and
# `python -m beambert.deploy.vertex.pipeline` read it. Nothing in it is secret.
project = "my-project"
region  = "us-central1"
# Corpus, workspace, staging and configuration; a name that nobody else on Google Cloud has.
bucket = "my-project-beambert"
# Who hears of failed runs.
alert_email = "ml-platform@example.com"
# When the corpus is looked at, in UTC. Runs with nothing new cost a minute of a small machine.
schedule = "0 3 * * *"
# What trains: a name of TRAINERS in deploy/vertex/jobs.py.
trainer = "v5e-8-spot"
