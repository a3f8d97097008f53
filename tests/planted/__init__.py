"""Deliberate mistakes, planted one at a time in a copy of the library, and the tests that notice them."""
