"""Tests of the metrics page, of what clients report, and of spans."""
