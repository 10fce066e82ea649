//! `decode`: prints messages field by field.

mod input;
mod mx;

use crate::failure::Failure;
use crate::options::{DecodeOptions, DecodeSubject};

/// Runs `decode` with the given options.
pub(crate) fn run(options: &DecodeOptions) -> Result<(), Failure> {
    match options.subject {
        DecodeSubject::Mx => mx::run(options),
    }
}
