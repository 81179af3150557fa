# The settings of the cloud project: edit this file, and nothing else, before `make cloud`.
# Terraform and `python -m beambert.deploy.vertex` read it. Nothing in it is secret.
project = "my-project"
region  = "us-central1"
# Address that gets mail about failed runs and costs.
alert_email = "ml-platform@example.com"
# Training machine, a name in TRAINERS of deploy/vertex/jobs.py, such as "v5e-8-spot" or "l4".
trainer = "v5e-1"
# People as Google Cloud names them, such as "group:editors@example.com"; docs/cloud.md has what each
# may do.
deliverers = []
operators  = []
approvers  = []
# alert_email gets mail at 50, 90 and 100 % of it, in the currency of the billing account, which whoever
# applies must be allowed to set budgets of; 0 for no budget.
monthly_budget = 0
# variables.tf has more settings, with defaults that can be overwritten here: engine, schedule,
# records_days, kms_key.
