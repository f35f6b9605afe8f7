"""What does a batch cost in tables of Delta and Iceberg, and what does a stream leave in them?"""
