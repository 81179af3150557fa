"""BERT in Keras 3: configuration, encoder, heads and the models made of them.

Importing this package loads none of its modules. `model.config`, `model.objectives` and
`model.checkpoint_names` need only the standard library, and the others only Keras.
"""
