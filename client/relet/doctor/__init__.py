"""What may be wrong with a server and the pools on it, and how a pool is mended: what ``relet doctor`` shows."""

from relet.doctor.findings import Finding

__all__ = ["Finding"]
