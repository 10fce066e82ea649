//! ZMTP 3.1 as a state machine without I/O.
