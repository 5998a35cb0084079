"""The encoders that come with the package; ``airmixml.registries`` names them."""
