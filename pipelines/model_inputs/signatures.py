"""Names of the signatures of a fine-tuned SavedModel and of their inputs."""

# The inputs of every signature that takes ids, and the further one of a tagging.
ID_INPUTS = ("input_ids", "input_mask", "segment_ids")
FIRST_PIECES = "first_pieces"
# The signature of a SQuAD model that takes windows.
WINDOWS_SIGNATURE = "windows"
