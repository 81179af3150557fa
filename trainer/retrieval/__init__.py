"""Finding the documents that answer a query, and how well that is done."""
