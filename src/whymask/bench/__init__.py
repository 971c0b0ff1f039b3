"""The paper's tables from one command: what is measured, the runner, its records, the tables."""
