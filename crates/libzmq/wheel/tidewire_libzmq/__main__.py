"""`python -m tidewire_libzmq` says which libzmq pyzmq uses. Its exit code is 0 if it is Tidewire's,
1 if it is another, and 2 if there is no pyzmq."""

import argparse
import json
import sys

import tidewire_libzmq


def main():
    parser = argparse.ArgumentParser(
        prog="python -m tidewire_libzmq", description="Says which libzmq pyzmq uses."
    )
    parser.add_argument("command", nargs="?", choices=["status", "path"], default="status")
    parser.add_argument("--json", action="store_true", help="the status as JSON")
    asked = parser.parse_args()
    if asked.command == "path":
        print(tidewire_libzmq.library_path())
        return 0
    try:
        status = tidewire_libzmq.status()
    except ImportError as error:
        print(f"pyzmq cannot be imported: {error}", file=sys.stderr)
        return 2
    print(json.dumps(status, indent=2) if asked.json else description(status))
    return 0 if status["tidewire"] else 1


def description(status):
    """Returns the status for people."""
    whose = "Tidewire's libzmq" if status["tidewire"] else "another libzmq, not Tidewire's"
    lines = [f"pyzmq {status['pyzmq']} uses {whose}, version {status['libzmq']}"]
    for path in status["loaded"]:
        note = "in use" if path == status["library"] else "loaded, not in use"
        lines.append(f"  {path}" + (f" ({note})" if status["library"] else ""))
    if not status["tidewire"] and not tidewire_libzmq.is_wanted():
        lines.append("  TIDEWIRE_LIBZMQ in the environment turns Tidewire's off")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
