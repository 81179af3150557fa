"""Files of every format to documents."""
