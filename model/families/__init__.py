"""The families of encoders, each described in a module; `table` has the list."""
