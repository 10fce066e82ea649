#!/usr/bin/env python3
"""Builds the wheel `tidewire-libzmq` from a `libzmq.so` that is built already, with nothing but the
standard library. `cargo xtask wheel` builds both. The same input gives the same bytes.

    build.py --library libzmq.so --version 0.1.0 --license LICENSE --notices FILE --output FOLDER
"""

import argparse
import base64
import hashlib
import re
import sys
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
PACKAGE = "tidewire_libzmq"
# The first time that a zip file can name.
TIME = (1980, 1, 1, 0, 0, 0)
MACHINES = {62: "x86_64", 183: "aarch64"}
# Python's manylinux tags begin here.
GLIBC_MINOR_MIN = 17


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("library", "version", "license", "notices", "output"):
        parser.add_argument(f"--{name}", required=True)
    asked = parser.parse_args()
    library = Path(asked.library).read_bytes()
    tag = f"py3-none-{platform_tag(library)}"
    info = f"{PACKAGE}-{asked.version}.dist-info"
    files = {
        f"{PACKAGE}.pth": (HERE / f"{PACKAGE}.pth").read_bytes(),
        f"{PACKAGE}/lib/libzmq.so.5": library,
        f"{info}/METADATA": metadata(asked.version).encode(),
        f"{info}/WHEEL": wheel(tag).encode(),
        f"{info}/licenses/LICENSE": Path(asked.license).read_bytes(),
        f"{info}/licenses/THIRD-PARTY.txt": Path(asked.notices).read_bytes(),
    }
    for source in sorted((HERE / PACKAGE).glob("*.py")):
        files[f"{PACKAGE}/{source.name}"] = source.read_bytes()
    files[f"{info}/RECORD"] = record(files, f"{info}/RECORD").encode()
    output = Path(asked.output)
    output.mkdir(parents=True, exist_ok=True)
    path = output / f"{PACKAGE}-{asked.version}-{tag}.whl"
    write(path, files)
    print(path)


def platform_tag(library):
    """Returns the oldest system that can load the library: the newest version of glibc whose
    functions it names."""
    if library[:6] != b"\x7fELF\x02\x01":
        sys.exit("the library is no 64-bit ELF file of a little-endian machine")
    machine = MACHINES.get(int.from_bytes(library[18:20], "little"))
    if machine is None:
        sys.exit("the library is for a machine that has no tag here")
    versions = re.findall(rb"\0GLIBC_2\.(\d+)(?=[.\0])", library)
    if not versions:
        sys.exit("the library names no version of glibc")
    return f"manylinux_2_{max(GLIBC_MINOR_MIN, *map(int, versions))}_{machine}"


def metadata(version):
    """Returns the description of the package."""
    head = [
        "Metadata-Version: 2.4",
        "Name: tidewire-libzmq",
        f"Version: {version}",
        "Summary: Tidewire's libzmq, which pyzmq uses in place of its own",
        "License-Expression: Apache-2.0",
        "License-File: LICENSE",
        "License-File: THIRD-PARTY.txt",
        "Requires-Python: >=3.8",
        "Requires-Dist: pyzmq>=25",
        "Description-Content-Type: text/markdown",
    ]
    return "\n".join(head) + "\n\n" + (HERE / "README.md").read_text(encoding="utf-8")


def wheel(tag):
    """Returns what kind of wheel it is: one for a platform, for any Python."""
    return f"Wheel-Version: 1.0\nGenerator: tidewire\nRoot-Is-Purelib: false\nTag: {tag}\n"


def record(files, own_name):
    """Returns the list of all files with their hashes, and of itself without."""
    lines = []
    for name, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=")
        lines.append(f"{name},sha256={digest.decode()},{len(content)}\n")
    return "".join(lines) + f"{own_name},,\n"


def write(path, files):
    """Writes the zip file whole or not at all."""
    new = path.with_name(path.name + ".new")
    with zipfile.ZipFile(new, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            mode = 0o100755 if ".so" in name else 0o100644
            entry.external_attr = mode << 16
            entry.create_system = 3
            archive.writestr(entry, content)
    new.replace(path)


if __name__ == "__main__":
    main()
