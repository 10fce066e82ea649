#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tidewire_dbn::fuzzing::fuzz_dbn_decoder(data));
