"""Batch jobs: a job and a site are frozen records, and a pure function renders them as a script."""
