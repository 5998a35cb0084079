"""What is kept on disk: atomic files, locks, run folders, results, and the studies that they belong to."""
