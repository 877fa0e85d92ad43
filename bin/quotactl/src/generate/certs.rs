//! A CA and certificates, for a first try: use a PKI or cert-manager in production.

use std::{
    fs::{self, OpenOptions},
    io::Write as _,
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

use jiff::{Span, Timestamp, tz::TimeZone};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};

use crate::{
    args::Certs,
    failure::{Exit, Failure, Outcome},
    output::{Output, note},
};

const CA: &str = "ca.crt";
const SERVER: [&str; 2] = ["tls.crt", "tls.key"];
const CLIENT: [&str; 2] = ["client.crt", "client.key"];

pub(super) fn run(wanted: &Certs, output: &Output) -> Outcome {
    let made = make(wanted)?;
    let dir = &wanted.dir;
    let about = |error: std::io::Error| Failure::from(error).about(dir.display());
    fs::create_dir_all(dir).map_err(about)?;
    if !wanted.force
        && let Some((name, _)) = made.iter().find(|(name, _)| dir.join(name).exists())
    {
        let failure = Failure::new(Exit::Conflict, "exists already");
        return Err(failure.about(dir.join(name).display()).hint("--force replaces what is there"));
    }
    for (name, pem) in &made {
        let file = dir.join(name);
        write(&file, pem).map_err(|error| Failure::from(error).about(file.display()))?;
    }
    note(format!(
        "made in {}: a CA, the webhook's certificate, and {} for the API server; the CA's key is not kept",
        dir.display(),
        CLIENT.join(" and "),
    ));
    let path = |name: &str| format!("{:?}", dir.join(name).display().to_string());
    output.line(format!(
        "[tls]\ncert = {}\nkey = {}\nclient_ca = {}\nallowed_names = [{:?}]",
        path(SERVER[0]),
        path(SERVER[1]),
        path(CA),
        wanted.client_name,
    ))
}

/// The names and contents of the files.
fn make(wanted: &Certs) -> Outcome<Vec<(&'static str, String)>> {
    let unmade = |error: rcgen::Error| Failure::general(error.to_string());
    let mut ca = parameters(wanted, &[], "Quota Ledger webhook CA")?;
    ca.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    ca.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let key = KeyPair::generate().map_err(unmade)?;
    let ca = CertifiedIssuer::self_signed(ca, key).map_err(unmade)?;

    let mut server = parameters(wanted, &wanted.host, "quotad")?;
    server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    // A SAN identifies a caller.
    let names = std::slice::from_ref(&wanted.client_name);
    let mut client = parameters(wanted, names, &wanted.client_name)?;
    client.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let mut files = vec![(CA, ca.pem())];
    for (mut parameters, [certificate, key]) in [(server, SERVER), (client, CLIENT)] {
        parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        parameters.use_authority_key_identifier_extension = true;
        let pair = KeyPair::generate().map_err(unmade)?;
        let signed = parameters.signed_by(&pair, &ca).map_err(unmade)?;
        files.push((certificate, signed.pem()));
        files.push((key, pair.serialize_pem()));
    }
    Ok(files)
}

fn parameters(wanted: &Certs, hosts: &[String], common_name: &str) -> Outcome<CertificateParams> {
    let mut parameters = CertificateParams::new(hosts)
        .map_err(|error| Failure::usage(format!("--host: {error}")))?;
    parameters.distinguished_name.push(DnType::CommonName, common_name);
    let now = Timestamp::now().to_zoned(TimeZone::UTC);
    // Clocks differ.
    let from = now.saturating_sub(Span::new().days(1));
    let until = now.saturating_add(Span::new().days(wanted.days));
    let date = |time: &jiff::Zoned| {
        let (month, day) = (time.month().unsigned_abs(), time.day().unsigned_abs());
        rcgen::date_time_ymd(time.year().into(), month, day)
    };
    parameters.not_before = date(&from);
    parameters.not_after = date(&until);
    Ok(parameters)
}

/// Writes a file. A key is never readable by others, not even for a moment.
fn write(file: &Path, pem: &str) -> std::io::Result<()> {
    let is_key = file.extension().is_some_and(|extension| extension == "key");
    // The mode of a file that exists would stay.
    match fs::remove_file(file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mode = if is_key { 0o600 } else { 0o644 };
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(file)?;
    file.write_all(pem.as_bytes())?;
    file.sync_all()
}
