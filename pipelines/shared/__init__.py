"""What every room needs: errors, flags, what commands print, pages, ragged arrays."""
