"""What ``relet watch`` shows.

::

    looks       how pools stand, and how they stood before
    picture     that as a picture, for a terminal
    lines       the same as lines, for anything else
    keys        what is typed meanwhile
"""
