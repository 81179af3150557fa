"""The Beam job from a task's examples to features on disk, and their contract."""
