"""The encoders that come with the package; ``airmixml.doors`` names them."""
