"""Files on any file system that Beam knows: input files, their compression, output folders."""
