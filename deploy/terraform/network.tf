# The network of Dataflow's workers. They have private addresses only, and reach Google's
# services through Private Google Access. Vertex AI's components and training jobs run in Google's own
# network.

resource "google_compute_network" "beambert" {
  name                    = "beambert"
  auto_create_subnetworks = false
  depends_on              = [google_project_service.needed]
}

resource "google_compute_subnetwork" "beambert" {
  name                     = "beambert"
  region                   = var.region
  network                  = google_compute_network.beambert.id
  ip_cidr_range            = "10.128.0.0/20"
  private_ip_google_access = true
}

# The workers of a job exchange data:
# https://cloud.google.com/dataflow/docs/guides/routes-firewall
resource "google_compute_firewall" "workers" {
  name        = "beambert-workers"
  network     = google_compute_network.beambert.id
  source_tags = ["dataflow"]
  target_tags = ["dataflow"]
  allow {
    protocol = "tcp"
    ports    = ["12345-12346"]
  }
}
