"""The Keras half of each kind of task: model, loss, and the graph that is served."""
