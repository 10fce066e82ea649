//! Commands on bits.

use super::super::{Command, Group, Run, bits};
use super::{command, key_spec};

#[rustfmt::skip]
pub(super) const BITS: &[Command] = &[
    command("setbit", 4, "write denyoom", Group::Bitmap, "2.2.0", Run::Data(bits::setbit))
        .keys(&[key_spec(1, 0, 1, "RW access update")]).categories("bitmap")
        .syntax("key:k offset:i value:i")
        .docs("Sets or clears a bit and returns its old value.", "O(1)"),
    command("getbit", 3, "readonly fast", Group::Bitmap, "2.2.0", Run::Data(bits::getbit))
        .keys(&[key_spec(1, 0, 1, "RO access")]).categories("bitmap").syntax("key:k offset:i")
        .docs("Returns a bit.", "O(1)"),
    command("bitcount", -2, "readonly", Group::Bitmap, "2.6.0", Run::Data(bits::bitcount))
        .keys(&[key_spec(1, 0, 1, "RO access")]).categories("bitmap")
        .syntax("key:k [range(start:i end:i [unit(BYTE | BIT)])]")
        .docs("Counts the bits that are set.", "O(N)"),
    command("bitpos", -3, "readonly", Group::Bitmap, "2.8.7", Run::Data(bits::bitpos))
        .keys(&[key_spec(1, 0, 1, "RO access")]).categories("bitmap")
        .syntax("key:k bit:i [range(start:i [end-unit-block(end:i [unit(BYTE | BIT)])])]")
        .docs("Finds the first set or clear bit.", "O(N)"),
    command("bitop", -4, "write denyoom", Group::Bitmap, "2.6.0", Run::Data(bits::bitop))
        .keys(&[key_spec(2, 0, 1, "OW update"), key_spec(3, -1, 1, "RO access")])
        .categories("bitmap").syntax("operation(AND | OR | XOR | NOT | DIFF | \
            DIFF1 | ANDOR | ONE) destkey:k key:k1+")
        .docs("Combines strings bit by bit and stores the result.", "O(N)"),
    command("bitfield", -2, "write denyoom", Group::Bitmap, "3.2.0", Run::Data(bits::bitfield))
        .keys(&[key_spec(1, 0, 1, "RW access update variable_flags")]).categories("bitmap")
        .syntax("key:k [operation(GET=get-block(encoding offset:i) | \
            write([OVERFLOW=overflow-block(WRAP | SAT | FAIL)] \
            write-operation(SET=set-block(encoding offset:i value:i) | \
            INCRBY=incrby-block(encoding offset:i increment:i))))+]")
        .docs("Reads, sets and increments integers of any width at any offset.",
            "O(1) for each of them."),
    command("bitfield_ro", -2, "readonly fast", Group::Bitmap, "6.0.0",
        Run::Data(bits::bitfield_ro)).keys(&[key_spec(1, 0, 1, "RO access")]).categories("bitmap")
        .syntax("key:k [GET=get-block(encoding offset:i)++]")
        .docs("Reads integers of any width at any offset.", "O(1) for each of them."),
];
