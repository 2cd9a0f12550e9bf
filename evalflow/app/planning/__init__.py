"""How many cases, repeats and labels a wanted precision needs."""
