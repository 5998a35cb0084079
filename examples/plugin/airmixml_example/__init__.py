"""What another package can add to airmixml, one file each; pyproject.toml registers them."""
