"""The command `discreet`. Its modules are imported only when it runs, so that Ctrl-C is handled from the start."""

import sys


def main() -> None:
    """Run the command."""
    try:
        from discreet.cli.commands import app

        app()
    except KeyboardInterrupt:  # while modules are imported; later, `discreet.cli.common.Group` handles it
        sys.stderr.write("discreet: stopped\n")
        sys.exit(130)
