# All names of the cloud project. Terraform and `python -m beambert.deploy.vertex` read this file.
# Nothing in it is secret.
project = "my-project"
region  = "us-central1"
# Beginning of the names of four buckets: -text (what is delivered), -config (what decides), -work (what
# runs make) and -state (Terraform's). The names must be unique in Google Cloud.
bucket = "my-project-beambert"
# Address that is told of failed runs and of costs.
alert_email = "ml-platform@example.com"
# Times at which a run starts, in UTC. Without new files it costs a minute on a small machine.
schedule = "0 3 * * *"
# Training machine, a name in TRAINERS of deploy/vertex/machines.py.
trainer = "v5e-8-spot"
# More regions in which a training job looks for a machine, in this order, when there is none in the one
# above, such as "us-west4". Ask for quota there, too.
training_regions = []
# A TensorBoard of Vertex AI in the region above, projects/…/locations/…/tensorboards/…, which shows
# the curves of training jobs; empty for none.
tensorboard = ""
# People as Google Cloud names them, such as "group:editors@example.com"; docs/cloud.md has what each
# may do.
deliverers = []
operators  = []
approvers  = []
# With a billing account, alert_email is told at 50, 90 and 100 % of a month's budget in its currency.
billing_account = ""
monthly_budget  = 500
# Percentage of the endpoint's requests that each new version gets at once, and loses if it does worse
# than in its evaluation; 0 to give each its share by hand.
canary_share = 0
# Key that all data is encrypted with, projects/…/locations/…/keyRings/…/cryptoKeys/…, in the region
# above; empty for Google's keys.
kms_key = ""
# Days after which the records of a run are deleted. Its models, metrics and lists of files stay.
records_days = 180
