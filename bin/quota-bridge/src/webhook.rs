//! The objects of the webhook that the leading bridge maintains. They are read and written as a whole.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::Method;
use jiff::{SignedDuration, Span, Timestamp, tz::TimeZone};
use quota_semantics::{admission::webhook_rules, object::GroupResource};
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
use serde_json::{Value, json};
use tokio::sync::watch;
use x509_parser::{certificate::X509Certificate, prelude::FromDer as _};

use crate::{
    kubernetes::{Client, Failure, JSON},
    metrics,
};

/// The path of a ValidatingWebhookConfiguration.
pub(crate) fn configuration(name: &str) -> String {
    format!("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/{name}")
}

pub(crate) async fn read(client: &Client, path: &str) -> Result<Value, Failure> {
    let body = client.get(path, JSON).await?;
    serde_json::from_slice(&body).map_err(|error| Failure::Unreadable(format!("{path}: {error}")))
}

/// Writes an object. Fails with 409 if the object was changed since it was read.
pub(crate) async fn write(client: &Client, path: &str, object: &Value) -> Result<(), Failure> {
    let body = object.to_string().into();
    client.send(Method::PUT, path, body).await.map(|_| ())
}

/// The interval at which changes by others are corrected.
const LOOK: Duration = Duration::from_secs(60);

/// The delay after a failure.
const RETRY: Duration = Duration::from_secs(5);

/// The delay in which further limits are collected: quotas are often created several at a time.
const GATHER: Duration = Duration::from_secs(1);

/// Maintains the rules of one ValidatingWebhookConfiguration: the API server calls the webhook for the kinds that
/// quotas limit.
pub(crate) struct Rules {
    /// The API server.
    pub(crate) client: Client,
    /// The name of the ValidatingWebhookConfiguration.
    pub(crate) webhook: String,
    /// Kinds whose number is limited by quotas that exist only in quotad.
    pub(crate) include: BTreeSet<GroupResource>,
    /// Workloads that are charged for their pods.
    pub(crate) charge: BTreeSet<GroupResource>,
}

impl Rules {
    /// Maintains the rules until the sender of `limited`, the kinds that quotas of the cluster limit, is dropped. While
    /// `limited` is `None`, existing rules stay; a webhook without rules gets those that do not depend on quotas.
    pub(crate) async fn run(&self, mut limited: watch::Receiver<Option<BTreeSet<GroupResource>>>) {
        loop {
            let current = limited.borrow_and_update().clone();
            let wait = self.look(current.as_ref()).await;
            tokio::select! {
                changed = limited.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    tokio::time::sleep(GATHER).await;
                }
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    /// Writes the rules if they differ. Returns the delay until the next check.
    async fn look(&self, limited: Option<&BTreeSet<GroupResource>>) -> Duration {
        match self.write(limited).await {
            Ok(()) => LOOK,
            // The object was changed concurrently: read it again.
            Err(failure) if failure.code() == Some(409) => GATHER,
            Err(failure) => {
                tracing::warn!(%failure, webhook = self.webhook, "cannot keep the webhook's rules");
                metrics::error("webhook", &failure);
                RETRY
            }
        }
    }

    async fn write(&self, limited: Option<&BTreeSet<GroupResource>>) -> Result<(), Failure> {
        let known = limited.is_some();
        let limited = limited.into_iter().flatten().chain(&self.include);
        let counted: BTreeSet<_> = limited.filter(|kind| !self.charge.contains(kind)).collect();
        let rules = json!(webhook_rules(counted.iter().copied(), &self.charge));
        let path = configuration(&self.webhook);
        let mut configuration = read(&self.client, &path).await?;
        if set(&mut configuration, &rules, known) {
            write(&self.client, &path, &configuration).await?;
            let counted: Vec<_> = counted.iter().map(ToString::to_string).collect();
            tracing::info!(webhook = self.webhook, ?counted, "wrote the webhook's rules");
        }
        Ok(())
    }
}

/// Sets the rules of all webhooks, or only of those without rules. Returns whether something changed.
fn set(configuration: &mut Value, rules: &Value, of_all: bool) -> bool {
    let mut changed = false;
    let webhooks = configuration["webhooks"].as_array_mut();
    for webhook in webhooks.into_iter().flatten() {
        let has_none = webhook["rules"].as_array().is_none_or(Vec::is_empty);
        if webhook["rules"] != *rules && (of_all || has_none) {
            webhook["rules"] = rules.clone();
            changed = true;
        }
    }
    changed
}

/// Keys of the Secret: all CAs, the key of the first CA, and the serving certificate with its key.
const AUTHORITIES: &str = "ca.crt";
const AUTHORITY_KEY: &str = "ca.key";
const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";

/// Maintains one certificate: a Secret with the certificate that quotad serves, and the `caBundle` by which the API
/// server trusts it.
pub(crate) struct CertificateManager {
    /// The API server.
    pub client: Client,
    /// The namespace of the Secret.
    pub namespace: String,
    /// The name of the Secret, which has to exist, and may be empty.
    pub secret: String,
    /// The name of the ValidatingWebhookConfiguration.
    pub webhook: String,
    /// The names that the serving certificate covers.
    pub names: Vec<String>,
    /// The interval of checks. A new CA is trusted for this long before it signs.
    pub every: Duration,
}

impl CertificateManager {
    /// Maintains the certificate; never returns.
    pub(crate) async fn run(&self) {
        loop {
            let wait = match self.look(Timestamp::now()).await {
                Ok(()) => self.every,
                // Somebody else has written: what is there now has to be read.
                Err(failure) if failure.code() == Some(409) => Duration::from_secs(1),
                Err(failure) => {
                    tracing::warn!(%failure, "cannot keep the webhook's certificate");
                    RETRY
                }
            };
            tokio::time::sleep(wait).await;
        }
    }

    async fn look(&self, now: Timestamp) -> Result<(), Failure> {
        let secret_path = format!("/api/v1/namespaces/{}/secrets/{}", self.namespace, self.secret);
        let webhook_path = configuration(&self.webhook);
        let mut secret = read(&self.client, &secret_path).await?;
        let mut configuration = read(&self.client, &webhook_path).await?;
        let held = held(&secret["data"]);
        let plan = plan(&held, &trusted(&configuration), &self.names, now)
            .map_err(|error| Failure::Unreadable(format!("no certificate: {error}")))?;
        // First what is trusted, then what is served.
        if trust(&mut configuration, &plan.trusted.concat()) {
            write(&self.client, &webhook_path, &configuration).await?;
            tracing::info!(
                webhook = self.webhook,
                authorities = plan.trusted.len(),
                "wrote the caBundle"
            );
        }
        if plan.held != held {
            hold(&mut secret, &plan.held);
            write(&self.client, &secret_path, &secret).await?;
            tracing::info!(secret = self.secret, "wrote the webhook's certificate");
        }
        Ok(())
    }
}

/// The content of a Secret. Unreadable parts count as missing.
fn held(data: &Value) -> Held {
    let text = |key: &str| decode(&data[key]);
    Held {
        authorities: certificates(&text(AUTHORITIES)),
        key: text(AUTHORITY_KEY),
        serving: Pair { certificate: text(CERTIFICATE), key: text(KEY) },
    }
}

fn hold(secret: &mut Value, held: &Held) {
    for (key, text) in [
        (AUTHORITIES, &held.authorities.concat()),
        (AUTHORITY_KEY, &held.key),
        (CERTIFICATE, &held.serving.certificate),
        (KEY, &held.serving.key),
    ] {
        if !secret["data"].is_object() {
            secret["data"] = json!({});
        }
        secret["data"][key] = STANDARD.encode(text).into();
    }
}

/// The CAs that all webhooks of the configuration trust.
fn trusted(configuration: &Value) -> Vec<String> {
    let bundles = configuration["webhooks"].as_array().into_iter().flatten();
    let bundles =
        bundles.map(|webhook| certificates(&decode(&webhook["clientConfig"]["caBundle"])));
    let common = bundles.reduce(|mut common, other| {
        common.retain(|certificate| other.contains(certificate));
        common
    });
    common.unwrap_or_default()
}

/// Sets the `caBundle` of all webhooks. Returns whether something changed.
fn trust(configuration: &mut Value, bundle: &str) -> bool {
    let bundle = Value::from(STANDARD.encode(bundle));
    let mut changed = false;
    for webhook in configuration["webhooks"].as_array_mut().into_iter().flatten() {
        let place = &mut webhook["clientConfig"]["caBundle"];
        changed |= *place != bundle;
        *place = bundle.clone();
    }
    changed
}

fn decode(field: &Value) -> String {
    let bytes = field.as_str().and_then(|text| STANDARD.decode(text).ok());
    String::from_utf8(bytes.unwrap_or_default()).unwrap_or_default()
}

/// The lifetime of a CA, in days.
const AUTHORITY_DAYS: u16 = 3650;

/// The lifetime of a serving certificate, in days.
const SERVING_DAYS: u16 = 365;

/// A certificate and its key, as PEM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Pair {
    certificate: String,
    key: String,
}

/// A new self-signed CA.
fn authority(now: Timestamp) -> Result<Pair, rcgen::Error> {
    let key = KeyPair::generate()?;
    let certificate = authority_parameters(now).self_signed(&key)?;
    Ok(pair(&certificate.pem(), &key))
}

/// A new serving certificate for these names.
fn serving_pair(authority: &Pair, names: &[String], now: Timestamp) -> Result<Pair, rcgen::Error> {
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
fn certificates(text: &str) -> Vec<String> {
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
fn expires(certificate: &str) -> Option<Timestamp> {
    let der = CertificateDer::from_pem_slice(certificate.as_bytes()).ok()?;
    let (_, parsed) = X509Certificate::from_der(&der).ok()?;
    Timestamp::from_second(parsed.validity().not_after.timestamp()).ok()
}

/// Whether the key belongs to the certificate.
fn fits(pair: &Pair) -> bool {
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
fn verifies(certificate: &str, authorities: &[String], names: &[String], at: Timestamp) -> bool {
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

/// The maximum number of CAs that are trusted at the same time.
const AUTHORITIES_MAX: usize = 8;

/// The content of the Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Held {
    /// The CAs, newest first.
    authorities: Vec<String>,
    /// The key of the newest CA.
    key: String,
    /// The serving certificate and its key.
    serving: Pair,
}

/// The desired state.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Plan {
    /// The CAs that the API server has to trust; written before the Secret.
    trusted: Vec<String>,
    /// The new content of the Secret.
    held: Held,
}

/// Plans the next change such that the API server always trusts the certificate that quotad serves. `trusted` are the
/// CAs that the API server trusts already. Certificates with less than a third of their lifetime left are replaced.
///
/// A new CA is trusted before it signs, and an old CA until it expires, so a change may take any time to reach the API
/// servers and the pods. The key of an old CA is deleted.
fn plan(
    held: &Held,
    trusted: &[String],
    names: &[String],
    now: Timestamp,
) -> Result<Plan, rcgen::Error> {
    let authority = match current(held, now) {
        Some(authority) => authority,
        None => authority(now)?,
    };
    let mut authorities = vec![authority.certificate.clone()];
    for other in held.authorities.iter().chain(trusted) {
        let is_good = expires(other).is_some_and(|end| end > now);
        if is_good && !authorities.contains(other) {
            authorities.push(other.clone());
        }
    }
    authorities.truncate(AUTHORITIES_MAX);

    let serving = &held.serving;
    let works = fits(serving) && verifies(&serving.certificate, &authorities, names, now);
    let is_young = || {
        let newest = std::slice::from_ref(&authority.certificate);
        verifies(&serving.certificate, newest, names, now + third(SERVING_DAYS))
    };
    let is_trusted = trusted.contains(&authority.certificate);
    let serving = match works && (!is_trusted || is_young()) {
        true => serving.clone(),
        false => serving_pair(&authority, names, now)?,
    };
    Ok(Plan {
        trusted: authorities.clone(),
        held: Held { authorities, key: authority.key, serving },
    })
}

/// The newest CA, if it may still sign: its key matches, and more than a third of its lifetime is left.
fn current(held: &Held, now: Timestamp) -> Option<Pair> {
    let newest = held.authorities.first()?;
    let pair = Pair { certificate: newest.clone(), key: held.key.clone() };
    let is_young = expires(newest)? > now + third(AUTHORITY_DAYS);
    (is_young && fits(&pair)).then_some(pair)
}

fn third(days: u16) -> SignedDuration {
    SignedDuration::from_hours(i64::from(days) * 24 / 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A bridge that may not list quotas never knows the limits. The webhook is called nevertheless.
    #[test]
    fn until_limits_are_known_only_missing_rules_are_written() {
        let mut configuration = json!({"webhooks": [{"name": "a"}, {"name": "b", "rules": [7]}]});
        let rules = json!([1]);
        assert!(set(&mut configuration, &rules, false));
        let written = |configuration: &Value| {
            let of = |webhook: usize| configuration["webhooks"][webhook]["rules"].clone();
            [of(0), of(1)]
        };
        assert_eq!(written(&configuration), [json!([1]), json!([7])]);
        assert!(!set(&mut configuration, &json!([2]), false));
        assert!(set(&mut configuration, &rules, true));
        assert_eq!(written(&configuration), [json!([1]), json!([1])]);
    }

    const STEP: SignedDuration = SignedDuration::from_hours(5 * 24);

    fn names() -> Vec<String> {
        vec!["quotad.quota-system.svc".to_owned()]
    }

    fn start() -> Timestamp {
        "2026-11-22T12:00:00Z".parse().unwrap()
    }

    /// API servers and pods: each of them has the latest state, or the one before.
    #[derive(Clone, Default)]
    struct World {
        held: Held,
        trusted: Vec<String>,
    }

    impl World {
        fn step(&mut self, names: &[String], now: Timestamp, writes: usize) {
            let plan = plan(&self.held, &self.trusted, names, now).unwrap();
            if writes > 0 {
                self.trusted = plan.trusted;
            }
            if writes > 1 {
                self.held = plan.held;
            }
        }
    }

    #[test]
    fn what_is_served_is_trusted_at_every_time() {
        let mut world = World::default();
        world.step(&names(), start(), 2);
        let first = world.clone();
        let mut before = world.clone();
        let mut authorities = 1;
        // 30 years, in which the bridge often ends between its writes.
        for step in 1..(30 * 365 / 5) {
            let now = start() + STEP * step;
            let newest = world.held.authorities.first().cloned();
            world.step(&names(), now, usize::try_from(step * 7 % 5).unwrap().min(2));
            authorities += usize::from(world.held.authorities.first() != newest.as_ref());
            for seen in [&before, &world] {
                for served in [&before, &world] {
                    let certificate = &served.held.serving.certificate;
                    assert!(verifies(certificate, &seen.trusted, &names(), now), "at {now}");
                }
            }
            assert!(fits(&world.held.serving));
            assert!(world.trusted.len() <= 3, "old ones go when they are over");
            before = world.clone();
        }
        assert!((4..=6).contains(&authorities), "{authorities}");
        assert!(!world.trusted.contains(&first.trusted[0]));
    }

    #[test]
    fn nothing_changes_without_a_reason() {
        let mut world = World::default();
        world.step(&names(), start(), 2);
        let before = world.clone();
        for days in [0, 1, 100, 240] {
            world.step(&names(), start() + SignedDuration::from_hours(days * 24), 2);
            assert_eq!(world.held, before.held);
            assert_eq!(world.trusted, before.trusted);
        }
    }

    #[test]
    fn what_others_destroy_is_made_again() {
        let mut world = World::default();
        world.step(&names(), start(), 2);
        let good = world.clone();
        let works = |world: &World, names: &[String]| {
            let serving = &world.held.serving;
            fits(serving) && verifies(&serving.certificate, &world.trusted, names, start())
        };
        type Destroy = fn(&mut World);
        let ways: [Destroy; 7] = [
            |world| world.held = Held::default(),
            |world| world.trusted.clear(),
            |world| world.held.key = "nothing".to_owned(),
            |world| world.held.serving.key = world.held.key.clone(),
            |world| world.held.serving.certificate = world.held.authorities[0].clone(),
            |world| world.held.authorities.clear(),
            |world| *world = World::default(),
        ];
        for (number, destroy) in ways.into_iter().enumerate() {
            let mut world = good.clone();
            destroy(&mut world);
            for _ in 0..3 {
                world.step(&names(), start(), 2);
            }
            assert!(works(&world, &names()), "way {number}");
            // What pods still serve stays trusted, if anybody still knows of it.
            if number == 0 || number == 5 {
                let served = &good.held.serving.certificate;
                assert!(verifies(served, &world.trusted, &names(), start()));
            }
        }
        let other = vec!["other.ns.svc".to_owned()];
        world.step(&other, start(), 2);
        assert!(works(&world, &other), "another name needs a new one");
        assert_eq!(world.trusted, good.trusted);
    }
}
