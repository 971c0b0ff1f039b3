"""What benchmarks explain: photos, questions and scenes."""
