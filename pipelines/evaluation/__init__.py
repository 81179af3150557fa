"""A model's answers to scores by slice, a page, and a blessing."""
