# Comments in terraform.tfvars explain the variables without a default.

variable "project" { type = string }
variable "region" { type = string }
variable "alert_email" { type = string }
variable "deliverers" { type = set(string) }
variable "operators" { type = set(string) }
variable "approvers" { type = set(string) }

# Terraform does not use the following: `python -m beambert.deploy` reads the same file.
variable "trainer" { type = string }

# Library that trains: "tensorflow" or "jax".
variable "engine" {
  type    = string
  default = "tensorflow"
}

# Times at which the pipeline starts, in UTC. A start without new files takes minutes on a small machine.
variable "schedule" {
  type    = string
  default = "0 * * * *"
}

locals {
  # Beginning of the names of four buckets: -text (what is delivered), -config (what decides), -work
  # (what runs make) and -state (Terraform's). A project's id is unique in Google Cloud.
  bucket = "${var.project}-beambert"
}
