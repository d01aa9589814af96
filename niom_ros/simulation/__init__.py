"""A virtual camera and a sketch, for the demo, the benchmarks and tests."""
