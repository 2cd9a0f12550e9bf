"""What can be chosen, what it is made of, and what its YAML may hold."""
