#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tidewire_redis::fuzzing::fuzz_manifest(data));
