"""BERT in Keras 3: configuration, encoder, heads and the models made of them.

Importing this package imports nothing: take what you need from its modules, of which `model.config`
needs only the standard library and the others only Keras.
"""
