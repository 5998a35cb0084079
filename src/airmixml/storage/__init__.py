"""What is kept on disk: files that are whole or not there, locks, folders, results."""
