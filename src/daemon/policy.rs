//! The rules of decisions, from the configuration.

use std::{collections::BTreeSet, path::Path, sync::Arc};

use anyhow::Context as _;
use quota_core::{
    decide::{Bounds, GroupBounds, Policy},
    event::Actor,
};
use quota_semantics::{
    Name,
    admission::{Charging, Coverage},
    object::GroupResource,
    quota::{LimitedResource, limited},
};

use crate::{
    admission::Rules,
    config::{ALL_KINDS, Config},
    exit::{Exit, Failure, OrExit as _},
    intake::{
        nats,
        record::{set_charging, set_object_labels},
    },
    writer::Ledger,
};

pub(super) fn policy(config: &Config) -> Result<Policy, Failure> {
    let reservations = &config.reservations;
    Ok(Policy {
        default_ttl: reservations.default_ttl.span(),
        max_ttl: reservations.max_ttl.span(),
        max_hold: reservations.max_hold.span(),
        max_pending: reservations.max_pending.get(),
        max_pending_per_namespace: reservations.max_pending_per_namespace.get(),
        max_pending_per_principal: reservations.max_pending_per_principal.get(),
        bounds: bounds(config),
        search_max: Policy::default().search_max,
        shown_max: Policy::default().shown_max,
        limited: limited(config.admission.limited_resources_file.as_deref())?,
        unlimited: reservations.unlimited,
        adopts_quotas: config.quotas.adopt,
        groups: GroupBounds {
            max: config.groups.max.get(),
            max_depth: config.groups.max_depth.get(),
            per_namespace: config.groups.max_per_namespace.get(),
        },
    })
}

fn bounds(config: &Config) -> Bounds {
    let limits = &config.limits;
    let bytes = limits.reservation_name_bytes.as_usize();
    Bounds {
        reservation_resources: limits.reservation_resources.get(),
        reservation_name_bytes: bytes,
        resources_per_namespace: limits.resources_per_namespace.get(),
        committed_per_namespace: limits.committed_per_namespace.get(),
        committed_per_principal: limits.committed_per_principal.get(),
        limits_per_quota: limits.limits_per_quota.get(),
        quotas_per_namespace: limits.quotas_per_namespace.get(),
        ended_bytes: limits.ended_reservations_bytes.bytes(),
        max_lifetime: config.reservations.max_lifetime.span(),
    }
}

/// Kubernetes' own configuration file, JSON or YAML.
fn limited(path: Option<&Path>) -> Result<Vec<LimitedResource>, Failure> {
    let Some(path) = path else {
        return Ok(Vec::new());
    };
    let read = || -> anyhow::Result<_> {
        let text = std::fs::read(path)?;
        let value = quota_semantics::yaml::object(&text)?;
        Ok(limited::load(&value.to_string())?)
    };
    read()
        .with_context(|| format!("admission.limited_resources_file = {}", path.display()))
        .or_exit(Exit::Configuration)
}

/// The kinds for which the API server calls the webhook: limits of other kinds are not enforced. Without a webhook no
/// limit relies on it, so all kinds count as covered.
pub(super) fn coverage(config: &Config) -> Coverage {
    let rules = &config.admission;
    if rules.listen.is_none() || rules.count.iter().any(|kind| kind == ALL_KINDS) {
        return Coverage::everything();
    }
    let kinds = rules.count.iter().chain(&rules.charge);
    Coverage::of(kinds.filter_map(|kind| kind.parse::<GroupResource>().ok()))
}

pub(super) fn charging(config: &Config) -> Result<Charging, Failure> {
    let kinds = config.admission.charge.iter().map(String::as_str);
    let charging = Charging::new(kinds).or_exit(Exit::Configuration)?;
    let labels = config.groups.object_labels.iter().map(String::as_str);
    Ok(charging.with_object_labels(labels))
}

/// Records which workloads are charged and which labels of objects are kept: usage depends on both.
pub(super) async fn record(
    config: &Config,
    charging: &Charging,
    ledger: &Ledger,
) -> Result<(), Failure> {
    let stream = config.nats.url.is_some();
    let source = stream.then(|| Name::from(nats::principal(&config.nats)));
    let kinds = charging.kinds().map(|kind| Name::from(kind.to_string()));
    let kinds: BTreeSet<Name> = kinds.collect();
    let actor = Actor::named("quotad");
    let recorded = set_charging(ledger, &actor, &kinds, source.as_ref()).await;
    if recorded.context("cannot record which workloads are charged")? {
        tracing::info!(?kinds, "admission.charge was changed");
    }
    let labels = charging.object_labels();
    let recorded = set_object_labels(ledger, &actor, labels, source.as_ref()).await;
    let recorded = recorded.context("cannot record which labels of objects count")?;
    if recorded.or_exit(Exit::Configuration)? {
        tracing::info!(?labels, "groups.object_labels was changed");
    }
    Ok(())
}

/// Records the same in a cluster, each time this node begins to lead, since only the leader writes records.
pub(super) async fn record_while_leading(config: Arc<Config>, charging: Charging, ledger: Ledger) {
    loop {
        ledger.wait_until_decides(true).await;
        if let Err(failure) = record(&config, &charging, &ledger).await {
            tracing::warn!(error = %failure, "rules are not recorded; the next leader will record them");
        }
        ledger.wait_until_decides(false).await;
    }
}

pub(super) fn rules(config: &Config, charging: Charging) -> Rules {
    Rules {
        charging,
        warn_ratio: config.admission.warn_ratio,
        allow_when_behind: config.admission.allow_when_behind,
        request_timeout: config.limits.request_timeout.get(),
    }
}
