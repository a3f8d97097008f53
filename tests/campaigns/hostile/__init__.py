"""Hostile input: made-up calls, one kind of argument a file, and the judge of what each of them ends in."""
