"""What users define: windows, aggregations, custom operators, and how they are applied to a frame."""
