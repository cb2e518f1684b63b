"""Everything that relet raises of its own.

::

    ReletError
    ├── PoolExhausted (also a TimeoutError)   none came free in time
    ├── LeaseLost                             the lease is no longer ours: stop using the resource
    ├── NotReplicated                         too few replicas confirmed a lease in time (min_replicas): given back
    ├── PoolDamaged                           a key of the pool was deleted or changed by somebody else
    ├── ResourceUnknown                       the pool has no resource of that name
    └── UnsupportedServer                     the server cannot do what relet needs, or is a read-only replica

Bad arguments are ``ValueError`` or ``TypeError``, raised before anything is sent. Errors of the Redis client
(connection lost, timed out, no permission, …) pass through unchanged.
"""

from __future__ import annotations


class ReletError(Exception):
    """The root of relet's own errors."""


class PoolExhausted(ReletError, TimeoutError):
    """No resource came free in time. Nothing was taken."""


class LeaseLost(ReletError):
    """The lease is over, though its holder did not release it: it lapsed, or an operator took the resource.

    Somebody else may be using the resource by now. Stop using it; nothing of the next holder's was touched.
    """


class NotReplicated(ReletError):
    """Fewer replicas than ``min_replicas`` confirmed a lease in time. It was given back; nothing is held."""


class PoolDamaged(ReletError):
    """A key of the pool is missing or does not fit the others; the message names it. Nothing was granted."""


class ResourceUnknown(ReletError):
    """The pool has no resource of that name."""


class UnsupportedServer(ReletError):
    """The server cannot do what was asked for; the message says what is missing."""
