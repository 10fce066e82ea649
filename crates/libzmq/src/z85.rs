//! Z85, and the keys of CURVE, which are written in it.

use std::ffi::c_int;
