"""The command `discreet`. Its parts are imported when it runs, so that Ctrl-C is answered in words from the start."""

import sys


def main() -> None:
    """Run the command."""
    try:
        from discreet.cli.commands import app

        app()
    except KeyboardInterrupt:  # while modules are imported; later `discreet.cli.common.Group` answers
        sys.stderr.write("discreet: stopped\n")
        sys.exit(130)
