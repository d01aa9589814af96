"""Benchmarks: how well matching works on real images."""
