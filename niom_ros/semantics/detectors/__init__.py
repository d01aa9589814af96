"""Detectors of objects, all behind one contract."""
