# The settings of the cloud project: edit this file, and nothing else, before `make cloud`.
# Terraform and `python -m beambert.deploy` read it. Nothing in it is secret.
project = "my-project"
region  = "us-central1"
# Address that gets mail about failed runs.
alert_email = "ml-platform@example.com"
# Training machine, a name in TRAINERS of deploy/vertex/jobs.py, such as "v5e-8-spot" or "l4".
trainer = "v5e-1"
# People as Google Cloud names them, such as "group:editors@example.com"; docs/cloud.md has what each
# may do.
deliverers = []
operators  = []
approvers  = []
# variables.tf has more settings, with defaults that can be overwritten here: engine and schedule.
