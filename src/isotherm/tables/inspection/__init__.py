"""What is wrong with a table, found in one pass, and a spec that samples it all the same."""
