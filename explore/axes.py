"""Names of the horizontal axes of curves; the page shows them before any library is loaded."""

UPDATES, TOKENS, MINUTES, FLOPS = "updates", "tokens", "minutes", "FLOPs"
AXES = (UPDATES, TOKENS, MINUTES, FLOPS)
