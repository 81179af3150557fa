# All names of the cloud project. Terraform and `python -m beambert.deploy.vertex` read this file.
# Nothing in it is secret.
project = "my-project"
region  = "us-central1"
# Beginning of the names of four buckets: -text (what is delivered), -config (what decides), -work (what
# runs make) and -state (Terraform's). The names must be unique in Google Cloud.
bucket = "my-project-beambert"
# Address that is told of failed runs and of costs.
alert_email = "ml-platform@example.com"
# Times at which the pipeline starts, in UTC. Without new files a start takes a minute on a small machine.
# A delivery is taken by the first start that is settle_minutes (deploy/retrain.toml) after its manifest.
schedule = "0 * * * *"
# Training machine, a name in TRAINERS of deploy/vertex/jobs.py.
trainer = "v5e-8-spot"
# People as Google Cloud names them, such as "group:editors@example.com"; docs/cloud.md has what each
# may do.
deliverers = []
operators  = []
approvers  = []
# With a billing account, alert_email is told at 50, 90 and 100 % of a month's budget in its currency.
billing_account = ""
monthly_budget  = 500
# Key that all data is encrypted with, projects/…/locations/…/keyRings/…/cryptoKeys/…, in the region
# above; empty for Google's keys.
kms_key = ""
# Days after which the records of a run are deleted. Its models, metrics and lists of files stay.
records_days = 180
