"""What differs between the engines of a training: devices, compiling a step, sharing a batch."""
