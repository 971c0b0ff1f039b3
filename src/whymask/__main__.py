"""`python -m whymask` is the command line."""

from whymask.cli import main

main()
