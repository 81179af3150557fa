"""Pre-training, fine-tuning and export of BERT with Keras under any tf.distribute strategy."""
