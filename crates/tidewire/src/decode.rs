//! `decode`: prints messages field by field.

mod input;
mod mx;

use crate::failure::Failure;
use crate::options::{DecodeOptions, DecodeSubject};

/// Shows what was asked for.
pub(crate) fn run(options: &DecodeOptions) -> Result<(), Failure> {
    match options.subject {
        DecodeSubject::Mx => mx::run(options),
    }
}
