"""Tests of tables of Delta and Iceberg, on a Spark that both have jars for; tests/operators/sinks/test_lake.py runs them."""
