"""The command, where its script is not on the path: python -m discreet."""

from discreet.cli import main

if __name__ == "__main__":
    main()
