"""The program: `pulsarscope`, and `python -m pulsarscope`."""

import sys


def main() -> None:
    """Run the command line. A signal during the imports ends it with one line, as later."""
    try:
        from pulsarscope.model.garbage_collection import collect_rarely, end_without_collecting  # noqa: PLC0415 - see above

        collect_rarely()  # before the imports, which leave no garbage: collecting takes a twelfth of the start
        end_without_collecting()
        from pulsarscope.cli import main as run  # noqa: PLC0415
    except KeyboardInterrupt:
        sys.stderr.write("pulsarscope: interrupted; there is no output\n")
        sys.exit(5)
    run()


if __name__ == "__main__":
    main()
