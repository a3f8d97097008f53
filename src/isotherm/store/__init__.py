"""Runs on a disk: a folder that grows while chains run, from which a run that was ended goes on."""
