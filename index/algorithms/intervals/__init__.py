"""Tatbul's indexes of one attribute's intervals: three of hers, and two of geometry."""
