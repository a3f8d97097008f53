"""What a regression says of its columns: predictions along them, contrasts, slopes, groups and curves."""
