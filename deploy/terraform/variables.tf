# terraform.tfvars says what they are for.

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

# For `python -m beambert.deploy.vertex`, which reads the same file.
variable "schedule" {
  type = string
}

variable "trainer" {
  type = string
}
