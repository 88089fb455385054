"""Chaos: faults injected into a stack that runs under load, and the judgement of what came of them.

load       steady events, and subscriptions that come, change and go
world      one stack with its proxies, its load and its recorder
faults     the catalogue; the modules named …_faults fill it
judge      the checker's verdict on a window, and what it cannot see
campaign   which faults run, how often, and the table of what was found
"""
