# Comments in terraform.tfvars explain the variables.

variable "project" {
  type = string
}

variable "region" {
  type = string
}

variable "bucket" {
  type = string
  validation {
    condition     = can(regex("^[a-z0-9][a-z0-9-]{1,55}$", var.bucket))
    error_message = "Must be 2 to 56 lower-case letters, digits and hyphens: -config follows."
  }
}

variable "alert_email" {
  type = string
}

variable "deliverers" {
  type = set(string)
}

variable "operators" {
  type = set(string)
}

variable "approvers" {
  type = set(string)
}

variable "kms_key" {
  type = string
  validation {
    condition     = var.kms_key == "" || can(regex("^projects/[^/]+/locations/[^/]+/keyRings/[^/]+/cryptoKeys/[^/]+$", var.kms_key))
    error_message = "Must be empty, or projects/…/locations/…/keyRings/…/cryptoKeys/…."
  }
}

variable "records_days" {
  type = number
}

variable "billing_account" {
  type = string
}

variable "monthly_budget" {
  type = number
}

# Used only by `python -m beambert.deploy.vertex`, which reads the same file.
variable "schedule" {
  type = string
}

variable "trainer" {
  type = string
}
