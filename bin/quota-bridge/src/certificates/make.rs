//! Certificates as PEM: generation and inspection.

use std::{sync::Arc, time::Duration};

use jiff::{Span, Timestamp, tz::TimeZone};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PublicKeyData as _,
};
use rustls::{
    RootCertStore,
    client::{WebPkiServerVerifier, danger::ServerCertVerifier as _},
    crypto::ring,
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject as _},
};
use x509_parser::{certificate::X509Certificate, prelude::FromDer as _};

/// The lifetime of a CA, in days.
pub(super) const AUTHORITY_DAYS: u16 = 3650;

/// The lifetime of a serving certificate, in days.
pub(super) const SERVING_DAYS: u16 = 365;

/// A certificate and its key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Pair {
    pub(super) certificate: String,
    pub(super) key: String,
}

/// A new self-signed CA.
pub(super) fn authority(now: Timestamp) -> Result<Pair, rcgen::Error> {
    let key = KeyPair::generate()?;
    let certificate = authority_parameters(now).self_signed(&key)?;
    Ok(pair(&certificate.pem(), &key))
}

/// A new serving certificate for these names.
pub(super) fn serving(
    authority: &Pair,
    names: &[String],
    now: Timestamp,
) -> Result<Pair, rcgen::Error> {
    let issuer = Issuer::new(authority_parameters(now), KeyPair::from_pem(&authority.key)?);
    let mut parameters = CertificateParams::new(names)?;
    parameters.distinguished_name.push(DnType::CommonName, "quotad");
    parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    parameters.use_authority_key_identifier_extension = true;
    good_for(&mut parameters, now, SERVING_DAYS);
    let key = KeyPair::generate()?;
    let certificate = parameters.signed_by(&key, &issuer)?;
    Ok(pair(&certificate.pem(), &key))
}

/// The parameters of a CA. All CAs have the same name, so that only the key of a CA has to be kept.
fn authority_parameters(now: Timestamp) -> CertificateParams {
    let mut parameters = CertificateParams::default();
    parameters.distinguished_name.push(DnType::CommonName, "Quota Ledger webhook CA");
    parameters.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    good_for(&mut parameters, now, AUTHORITY_DAYS);
    parameters
}

/// Sets the validity, which begins a day before, since clocks differ.
fn good_for(parameters: &mut CertificateParams, now: Timestamp, days: u16) {
    let now = now.to_zoned(TimeZone::UTC);
    let date = |time: jiff::Zoned| {
        let (month, day) = (time.month().unsigned_abs(), time.day().unsigned_abs());
        rcgen::date_time_ymd(time.year().into(), month, day)
    };
    parameters.not_before = date(now.saturating_sub(Span::new().days(1)));
    parameters.not_after = date(now.saturating_add(Span::new().days(days)));
}

fn pair(certificate: &str, key: &KeyPair) -> Pair {
    Pair { certificate: certificates(certificate).concat(), key: key.serialize_pem() }
}

/// The certificates in a PEM text, normalized. Blocks that are no certificates are left out.
pub(super) fn certificates(text: &str) -> Vec<String> {
    const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
    const END: &str = "-----END CERTIFICATE-----";
    let blocks = text.split(BEGIN).skip(1);
    let blocks = blocks.filter_map(|block| block.split_once(END));
    let blocks = blocks.map(|(inside, _)| {
        let lines: Vec<&str> = inside.split_whitespace().collect();
        format!("{BEGIN}\n{}\n{END}\n", lines.join("\n"))
    });
    blocks.filter(|block| expires(block).is_some()).collect()
}

/// The expiry time of a certificate; none if the text is no certificate.
pub(super) fn expires(certificate: &str) -> Option<Timestamp> {
    let der = CertificateDer::from_pem_slice(certificate.as_bytes()).ok()?;
    let (_, parsed) = X509Certificate::from_der(&der).ok()?;
    Timestamp::from_second(parsed.validity().not_after.timestamp()).ok()
}

/// Whether the key belongs to the certificate.
pub(super) fn fits(pair: &Pair) -> bool {
    let Ok(key) = KeyPair::from_pem(&pair.key) else {
        return false;
    };
    let Ok(der) = CertificateDer::from_pem_slice(pair.certificate.as_bytes()) else {
        return false;
    };
    X509Certificate::from_der(&der)
        .is_ok_and(|(_, parsed)| parsed.public_key().raw == key.subject_public_key_info())
}

/// Whether a client that trusts these CAs accepts the certificate for each of the names at that time.
pub(super) fn verifies(
    certificate: &str,
    authorities: &[String],
    names: &[String],
    at: Timestamp,
) -> bool {
    let mut roots = RootCertStore::empty();
    for authority in authorities {
        // One that is over vouches for nothing, which webpki does not look at.
        if expires(authority).is_some_and(|end| end > at)
            && let Ok(der) = CertificateDer::from_pem_slice(authority.as_bytes())
        {
            let _ = roots.add(der);
        }
    }
    let provider = Arc::new(ring::default_provider());
    let Ok(verifier) =
        WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build()
    else {
        return false;
    };
    let Ok(leaf) = CertificateDer::from_pem_slice(certificate.as_bytes()) else {
        return false;
    };
    let seconds = u64::try_from(at.as_second()).unwrap_or(0);
    let at = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
    names.iter().all(|name| {
        ServerName::try_from(name.as_str())
            .is_ok_and(|name| verifier.verify_server_cert(&leaf, &[], &name, &[], at).is_ok())
    })
}
