"""Who may connect: the ban list, and the detection of clients that come and go all the time."""
