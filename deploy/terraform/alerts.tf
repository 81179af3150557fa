# Alerts the team when a run has failed. A run whose model was refused has not failed.

resource "google_monitoring_notification_channel" "team" {
  display_name = "BeamBERT"
  type         = "email"
  labels = {
    email_address = var.alert_email
  }
  depends_on = [google_project_service.needed]
}

resource "google_monitoring_alert_policy" "failed_run" {
  display_name = "A retraining has failed"
  combiner     = "OR"
  conditions {
    display_name = "a pipeline's error"
    condition_matched_log {
      filter = "resource.type=\"aiplatform.googleapis.com/PipelineJob\" AND severity>=ERROR"
    }
  }
  alert_strategy {
    notification_rate_limit {
      period = "3600s"
    }
  }
  notification_channels = [google_monitoring_notification_channel.team.id]
}
