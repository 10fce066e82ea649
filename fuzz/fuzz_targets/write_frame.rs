#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tidewire_cluster::fuzzing::fuzz_write_frame(data));
