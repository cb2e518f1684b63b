"""A campaign of faults: many clients use pools while a nemesis breaks what it can, and a checker judges the history.

    python -m tests.faults --list
    python -m tests.faults --server valkey-9.1 --nemesis all --seconds 60

The rooms: `plan` says what is to be run, `arena` has the servers, `clients` and `sessions` use the pools, `register` is
written to with fences, `proxy` is the network, `nemeses` break things, `history` is what everybody wrote down, and
`checker` reads nothing else. `campaign` puts them together; `broken` breaks relet itself, to see that it is noticed.
"""
