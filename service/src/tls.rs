//! Errors of TLS in words for operators.

/// Why a certificate and its key cannot be used.
pub fn unusable(error: &rustls::Error) -> String {
    use rustls::Error;
    match error {
        Error::InconsistentKeys(_) => "the private key does not belong to the certificate".to_owned(),
        // The only way to recognize a key of another algorithm.
        Error::General(text) if text.contains("private key") => {
            "the private key is none of those supported: RSA (2048 to 8192 bits), ECDSA on P-256 or P-384, Ed25519; \
             P-521 is not supported"
                .to_owned()
        }
        other => other.to_string(),
    }
}
