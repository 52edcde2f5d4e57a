"""`python -m pulsarscope`."""

from pulsarscope.cli import main

if __name__ == "__main__":
    main()
