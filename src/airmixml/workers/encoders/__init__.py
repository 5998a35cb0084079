"""The encoders that come with the package, one file each; ``airmixml.doors`` names them."""
