# Comments in terraform.tfvars explain the variables.

variable "project" {
  type = string
}

variable "region" {
  type = string
}

variable "bucket" {
  type = string
}

variable "alert_email" {
  type = string
}

# Used only by `python -m beambert.deploy.vertex`, which reads the same file.
variable "schedule" {
  type = string
}

variable "trainer" {
  type = string
}
