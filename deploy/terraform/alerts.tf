# Reports what the team must look at. A run whose model was refused has not failed.

resource "google_monitoring_notification_channel" "team" {
  display_name = "BeamBERT"
  type         = "email"
  labels = {
    email_address = var.alert_email
  }
  depends_on = [google_project_service.needed]
}

locals {
  # Name of an alert -> its filter of the logs, with the words that `beambert retrain` prints, and its
  # advice.
  alerts = {
    "A retraining has failed" = {
      filter = "resource.type=\"aiplatform.googleapis.com/PipelineJob\" AND severity>=ERROR"
      advice = "What is served stays. The log of the step that failed ends with a message that names the cause and the remedy. Correct it; the next start continues where the run stopped."
    }
    "A delivery was left out" = {
      filter = "resource.type=\"ml_job\" AND \"was left out\""
      advice = "The log names the manifest and what is wrong. Have the files delivered again under new names, and delete the wrong manifest: each start reports it until it is gone."
    }
    "No retraining has ended for a long time" = {
      filter = "resource.type=\"ml_job\" AND \"no run has ended since\""
      advice = "Either nothing was delivered, or each run fails: look at the newest files in the bucket of text, and at the newest run of the pipeline."
    }
  }
}

resource "google_monitoring_alert_policy" "log" {
  for_each     = local.alerts
  display_name = each.key
  combiner     = "OR"
  conditions {
    display_name = each.key
    condition_matched_log {
      filter = each.value.filter
    }
  }
  alert_strategy {
    notification_rate_limit {
      period = "3600s"
    }
  }
  documentation {
    mime_type = "text/markdown"
    content   = each.value.advice
  }
  notification_channels = [google_monitoring_notification_channel.team.id]
}

# The configuration ends a job after twelve hours.
resource "google_monitoring_alert_policy" "dataflow" {
  display_name = "A Dataflow job runs for more than 13 hours"
  combiner     = "OR"
  conditions {
    display_name = "more than 13 hours"
    condition_threshold {
      filter          = "resource.type=\"dataflow_job\" AND metric.type=\"dataflow.googleapis.com/job/elapsed_time\""
      comparison      = "COMPARISON_GT"
      threshold_value = 46800
      duration        = "0s"
      aggregations {
        alignment_period   = "300s"
        per_series_aligner = "ALIGN_MAX"
      }
    }
  }
  documentation {
    mime_type = "text/markdown"
    content   = "This job is of another origin or makes no progress. Cancel it on Dataflow's page; the next start makes the records again."
  }
  notification_channels = [google_monitoring_notification_channel.team.id]
}

resource "google_billing_budget" "month" {
  count           = var.billing_account == "" ? 0 : 1
  billing_account = var.billing_account
  display_name    = "BeamBERT"
  budget_filter {
    projects = ["projects/${var.project}"]
    labels   = { app = "beambert" }
  }
  amount {
    specified_amount {
      units = tostring(var.monthly_budget)
    }
  }
  dynamic "threshold_rules" {
    for_each = [0.5, 0.9, 1.0]
    content {
      threshold_percent = threshold_rules.value
    }
  }
  all_updates_rule {
    monitoring_notification_channels = [google_monitoring_notification_channel.team.id]
  }
}
