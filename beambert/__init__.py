"""BeamBERT: pre-trains BERT on one's own text with Apache Beam and Keras."""
