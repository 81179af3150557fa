"""A local web page that shows the records, the models and how BERT reads a text."""
