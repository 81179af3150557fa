"""BERT and its relatives in Keras 3: configurations, encoders, heads and the models made of them.

Importing this package loads none of its modules. `model.config`, `model.objectives`,
`model.families` and `model.checkpoint_names` need only the standard library, and the others only
Keras.
"""
