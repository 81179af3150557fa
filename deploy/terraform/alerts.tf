# Reports what the team must look at. A run whose model was refused has not failed.

resource "google_monitoring_notification_channel" "team" {
  display_name = "BeamBERT"
  type         = "email"
  labels       = { email_address = var.alert_email }
  depends_on   = [google_project_service.needed]
}

locals {
  # Name of an alert -> its filter of the logs, with the words that `beambert retrain` prints, and its
  # advice.
  alerts = {
    "A retraining has failed" = {
      filter = "resource.type=\"aiplatform.googleapis.com/PipelineJob\" AND severity>=ERROR"
      advice = "What is served stays. The log of the step that failed ends with a message that names the cause and the remedy. Correct it; the next start continues where the run stopped."
    }
  }
}

resource "google_monitoring_alert_policy" "log" {
  for_each     = local.alerts
  display_name = each.key
  combiner     = "OR"
  conditions {
    display_name = each.key
    condition_matched_log { filter = each.value.filter }
  }
  alert_strategy {
    notification_rate_limit { period = "3600s" }
  }
  documentation {
    mime_type = "text/markdown"
    content   = each.value.advice
  }
  notification_channels = [google_monitoring_notification_channel.team.id]
}
