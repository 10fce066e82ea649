"""Tidewire's libzmq for pyzmq.

While this package is installed, `import zmq` uses the library of this package in place of the libzmq
that pyzmq brings. `python -m tidewire_libzmq` says which one is in use. `pip uninstall
tidewire-libzmq` or `TIDEWIRE_LIBZMQ=0` in the environment undo it; no file of pyzmq is changed.
"""

# Only what Python has loaded anyway: this module is part of every start.
import _thread
import os
import sys

#: What `zmq.has()` answers for with this library, and with no other.
MARK = "tidewire"

_LIBRARY = None
_LOCK = _thread.allocate_lock()


def library_path():
    """Returns the path of this package's `libzmq.so.5`."""
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib", "libzmq.so.5")


def is_wanted():
    """Returns whether the environment leaves the library on: `TIDEWIRE_LIBZMQ=0` turns it off."""
    return os.environ.get("TIDEWIRE_LIBZMQ", "").strip().lower() not in ("0", "off", "no", "false")


def use():
    """Loads the library, for all modules that are imported from now on.

    Python does this by itself before pyzmq is imported, except where it reads no `.pth` files
    (`pip install --target`, frozen programs). There, call this before the first `import zmq`.

    Returns whether the library is loaded: `TIDEWIRE_LIBZMQ=0` turns this off, too. Raises
    ImportError if the library cannot be loaded, or if pyzmq has been imported already.
    """
    global _LIBRARY
    if not is_wanted():
        return False
    with _LOCK:
        if _LIBRARY is not None:
            return True
        if "zmq.backend" in sys.modules:
            raise ImportError("tidewire_libzmq: pyzmq has been imported already")
        import ctypes

        path = library_path()
        try:
            # Names that are visible to all come before those of the libraries that a module brings:
            # pyzmq's own libzmq is still loaded, but none of its functions is called.
            _LIBRARY = ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
        except OSError as error:
            raise ImportError(f"tidewire_libzmq: cannot load {path}: {error}") from error
    return True


def is_used():
    """Imports pyzmq and returns whether it calls this library. The answer comes from the library
    that pyzmq calls."""
    import zmq

    return bool(zmq.has(MARK))


def status():
    """Imports pyzmq and returns what it uses, as a dictionary."""
    import zmq

    used = is_used()
    return {
        "pyzmq": zmq.pyzmq_version(),
        "libzmq": zmq.zmq_version(),
        "tidewire": used,
        "package": version(),
        "library": library_path() if used and _LIBRARY is not None else None,
        "loaded": _loaded(),
    }


def version():
    """Returns the version of this package."""
    from importlib import metadata

    return metadata.version("tidewire-libzmq")


def _loaded():
    """Returns the paths of all files named libzmq that the process has loaded, used or not."""
    paths = set()
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        for line in maps:
            path = line.rstrip("\n").partition("/")[2]
            if "libzmq" in path.rpartition("/")[2] and ".so" in path:
                paths.add("/" + path)
    return sorted(paths)
