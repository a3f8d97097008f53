"""HTML pages: what they are made of, and the report of a run."""
