"""Structured grids, as ``ghex.structured``."""
