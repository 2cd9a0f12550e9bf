"""evalflow in Python."""
