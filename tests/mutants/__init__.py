"""Mistakes drawn at random from the syntax tree of the library, and the tests that notice them."""
