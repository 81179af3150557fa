"""Files and folders, local or on object storage: reading, writing aside, claiming."""
