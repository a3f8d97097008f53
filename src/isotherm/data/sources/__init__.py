"""Sources: rows that are read or computed when they are needed."""
