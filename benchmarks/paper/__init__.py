"""The papers' figures and tables, measured again: `./herald bench paper NAME`.

Every method is built over the same rows and asked the same events in one run; that all find the
same matches is asserted before a time is written down.
"""
