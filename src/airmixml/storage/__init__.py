"""What is kept on disk: run folders, and the studies that they belong to."""
