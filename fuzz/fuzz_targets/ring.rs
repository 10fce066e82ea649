#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tidewire_rings::fuzzing::fuzz_ring(data));
