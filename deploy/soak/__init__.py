"""Soak: a stack under steady load for half an hour, and whether anything grows meanwhile.

load       writes and events at steady rates; each write's acknowledgement is noted
lag        from there to the first batch that is pinned at its epoch
memory     of each process of the stack, as the kernel counts it
sampling   all of that every few seconds, with the length of the log and the files there are
verdict    what grew, and whether that is allowed
run        wires them; report tells of the outcome
"""
