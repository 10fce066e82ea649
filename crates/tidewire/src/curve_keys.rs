//! `curve-keys`: generates a key pair for CURVE.

use tidewire_zmtp::curve::Keypair;
use tidewire_zmtp::z85;

use crate::failure::Failure;

/// Prints a new pair: the public key to distribute and the secret key to keep in a file.
pub(crate) fn run() -> Result<(), Failure> {
    let keys = Keypair::generate().map_err(|error| Failure::running(error.to_string()))?;
    let text = |key: &[u8]| z85::encode(key).map_err(|error| Failure::running(error.to_string()));
    println!("public {}", text(&keys.public)?);
    println!("secret {}", text(keys.secret.as_bytes())?);
    Ok(())
}
