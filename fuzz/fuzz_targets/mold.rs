#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tidewire_itch::fuzzing::fuzz_mold(data));
