"""People's labels: sample answers to label, read labels from files, and bind them to the answers."""
