"""pyzmq from PyPI uses our library while the wheel `tidewire-libzmq` is installed."""

import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from conftest import WHEEL

SOURCES = Path(__file__).resolve().parents[4] / "crates/libzmq/wheel"
ASK = "import zmq; print(zmq.has('tidewire'), zmq.zmq_version())"
LIBRARY = os.environ["TIDEWIRE_LIBZMQ"]


def said(process):
    assert process.returncode == 0, process.stderr
    return process.stdout.strip()


def test_pyzmq_uses_our_library_once_it_is_installed(installed):
    assert said(installed.python("-W", "error", "-c", ASK)) == "True 4.3.6"
    status = json.loads(said(installed.python("-m", "tidewire_libzmq", "--json")))
    assert status["tidewire"] is True
    assert status["pyzmq"] == installed.version
    assert status["library"] in status["loaded"]
    assert Path(status["library"]).is_relative_to(installed.folder)
    assert said(installed.python("-m", "tidewire_libzmq", "path")) == status["library"]
    text = said(installed.python("-m", "tidewire_libzmq"))
    assert f"pyzmq {installed.version} uses Tidewire's libzmq, version 4.3.6" in text


def test_the_environment_turns_it_off(installed):
    assert said(installed.python("-c", ASK, TIDEWIRE_LIBZMQ="0")).startswith("False 4.3.")
    process = installed.python("-m", "tidewire_libzmq", TIDEWIRE_LIBZMQ="0")
    assert process.returncode == 1
    assert "uses another libzmq, not Tidewire's" in process.stdout
    assert "TIDEWIRE_LIBZMQ in the environment turns Tidewire's off" in process.stdout
    use = f"import tidewire_libzmq; assert not tidewire_libzmq.use(); {ASK}"
    assert said(installed.python("-c", use, TIDEWIRE_LIBZMQ="off")).startswith("False ")


def test_child_processes_use_it_too(installed, tmp_path):
    program = tmp_path / "children.py"
    program.write_text(
        "import multiprocessing\n"
        "def ask(_):\n"
        "    import zmq\n"
        "    return zmq.has('tidewire')\n"
        "if __name__ == '__main__':\n"
        "    for method in ('spawn', 'fork', 'forkserver'):\n"
        "        with multiprocessing.get_context(method).Pool(2) as pool:\n"
        "            print(method, pool.map(ask, range(2)))\n"
    )
    lines = said(installed.python(program)).splitlines()
    assert lines == [f"{method} [True, True]" for method in ("spawn", "fork", "forkserver")]


@pytest.mark.parametrize("loop", ["asyncio", "gevent", "tornado"])
def test_event_loops_answer_and_tick(installed, loop):
    example = SOURCES / f"examples/{loop}_loop.py"
    lines = said(installed.python("-W", "error::RuntimeWarning", example, 20, 50)).splitlines()
    assert lines == ["tidewire: True", "1000 answers, 20 ticks, in order: True"]


def test_a_program_without_pyzmq_loads_nothing(installed):
    program = (
        "import sys; maps = open('/proc/self/maps').read(); "
        "print('libzmq' in maps, 'ctypes' in sys.modules, 'threading' in sys.modules)"
    )
    assert said(installed.python("-c", program)) == "False False False"


def test_uninstalling_leaves_pyzmq_as_it_was(bare):
    before = bare.files("zmq/**/*") | bare.files("pyzmq*/**/*")
    assert before and said(bare.python("-c", ASK)).startswith("False ")
    bare.install_wheel()
    assert said(bare.python("-c", ASK)).startswith("True ")
    assert bare.files("zmq/**/*") | bare.files("pyzmq*/**/*") == before
    bare.pip("uninstall", "--yes", "tidewire-libzmq")
    assert said(bare.python("-c", ASK)).startswith("False ")
    assert bare.files("zmq/**/*") | bare.files("pyzmq*/**/*") == before
    assert bare.files("*tidewire*") | bare.files("*tidewire*/**/*") == {}


def test_a_library_that_cannot_be_loaded_leaves_pyzmq_its_own(bare):
    bare.install_wheel()
    (library,) = bare.files("tidewire_libzmq/lib/*")
    library.write_bytes(b"no library")
    process = bare.python("-c", ASK)
    assert said(process).startswith("False ")
    assert "RuntimeWarning: tidewire_libzmq: cannot load" in process.stderr
    assert "pyzmq keeps its own libzmq" in process.stderr
    process = bare.python("-c", "import tidewire_libzmq; tidewire_libzmq.use()")
    assert process.returncode == 1
    assert "ImportError: tidewire_libzmq: cannot load" in process.stderr
    assert bare.python("-m", "tidewire_libzmq").returncode == 1


def test_a_program_may_ask_for_it_by_name(bare, tmp_path):
    target = ["--no-deps", "--no-index", "--upgrade", "--target", tmp_path]
    bare.pip("install", *target, WHEEL)
    use = "import tidewire_libzmq; assert tidewire_libzmq.use() and tidewire_libzmq.use()"
    folder = str(tmp_path)
    assert said(bare.python("-c", ASK, PYTHONPATH=folder)).startswith("False ")
    assert said(bare.python("-c", f"{use}; {ASK}", PYTHONPATH=folder)).startswith("True ")
    process = bare.python("-c", f"import zmq; {use}", PYTHONPATH=folder)
    assert process.returncode == 1
    assert "ImportError: tidewire_libzmq: pyzmq has been imported already" in process.stderr


def test_without_pyzmq_the_status_says_so(bare):
    bare.install_wheel()
    blocked = "import sys, runpy; sys.modules['zmq'] = None; sys.argv = ['x']; "
    process = bare.python("-c", f"{blocked}runpy.run_module('tidewire_libzmq', None, '__main__')")
    assert process.returncode == 2
    assert "pyzmq cannot be imported" in process.stderr


def build(library, output):
    return subprocess.run(
        [sys.executable, SOURCES / "build.py", "--library", library, "--version", "0.1.0"]
        + ["--license", SOURCES.parents[2] / "LICENSE", "--notices", SOURCES / "README.md"]
        + ["--output", output],
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_same_library_makes_the_same_wheel(tmp_path):
    wheels = [Path(said(build(LIBRARY, tmp_path / name))) for name in ("a", "b")]
    assert wheels[0].read_bytes() == wheels[1].read_bytes()
    assert re.fullmatch(
        r"tidewire_libzmq-0\.1\.0-py3-none-manylinux_2_\d+_\w+\.whl", wheels[0].name
    )


def test_what_is_no_library_is_refused(tmp_path):
    for content in (b"", b"#!/bin/sh\n", b"\x7fELF\x01\x01", Path(LIBRARY).read_bytes()[:64]):
        (tmp_path / "library").write_bytes(content)
        process = build(tmp_path / "library", tmp_path / "out")
        assert process.returncode == 1 and process.stderr.startswith("the library ")
        assert not (tmp_path / "out").exists()


def test_the_wheel_names_the_glibc_that_it_needs():
    symbols = subprocess.run(["objdump", "-T", LIBRARY], capture_output=True, text=True, check=True)
    needed = max(map(int, re.findall(r"GLIBC_2\.(\d+)", symbols.stdout)))
    assert f"-manylinux_2_{needed}_" in WHEEL.name


def test_the_wheel_has_the_licences_of_all_crates():
    with zipfile.ZipFile(WHEEL) as archive:
        (path,) = (name for name in archive.namelist() if name.endswith("THIRD-PARTY.txt"))
        notices = archive.read(path).decode()
    for name in ("curve25519-dalek", "rustix", "parking_lot", "bytes"):
        assert re.search(rf"^=== {name} [\d.]+: ", notices, re.MULTILINE), name
    # Each crate brings at least one text.
    for notice in notices.split("\n=== ")[1:]:
        assert len(notice) > 300, notice.splitlines()[0]
