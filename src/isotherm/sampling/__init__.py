"""What users call to draw samples."""
