"""Loads Tidewire's libzmq before pyzmq is imported. Python runs this module when it starts, because
`tidewire_libzmq.pth` is in site-packages. Until then it costs one comparison of names per import; a
program that does not use pyzmq loads no library."""

import sys

import tidewire_libzmq


class Finder:
    """The first finder of modules. It finds none itself."""

    def find_spec(self, name, path=None, target=None):
        if name == "zmq":
            stop()
            load()
        return None


def start():
    """Waits for the import of pyzmq, unless the user has turned this off."""
    if not tidewire_libzmq.is_wanted():
        return
    if "zmq" in sys.modules:
        # Another .pth file has imported it. `use` says what is wrong.
        load()
    else:
        sys.meta_path.insert(0, FINDER)


def stop():
    """No longer waits for the import."""
    # Another thread may have imported it at the same time.
    if FINDER in sys.meta_path:
        sys.meta_path.remove(FINDER)


def load():
    """Loads the library. A program that does not ask for it by name goes on without it."""
    try:
        tidewire_libzmq.use()
    except ImportError as error:
        import warnings

        warnings.warn(f"{error}; pyzmq keeps its own libzmq", RuntimeWarning, stacklevel=2)


FINDER = Finder()

start()
