"""HTML pages: their building blocks, and the report of a run."""
