"""The functions that users call to draw samples."""
