"""What `python -m tests.benchmarks` measures, a module a section."""
