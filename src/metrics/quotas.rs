//! `kube_resourcequota`: told at scrape time from the state, with a bounded number of series.

use std::collections::BTreeMap;

use super::{
    OTHER,
    labels::Limit,
    record::limit_reached,
    table,
    text::{head, sample},
};

/// What is told about one quota.
#[derive(Clone, Debug, PartialEq)]
pub struct QuotaSample<'a> {
    /// Its namespace.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// When it was created, in seconds since 1970.
    pub created: f64,
    /// Its resources.
    pub resources: Vec<ResourceSample<'a>>,
}

/// What is told about one resource of a quota, in base units (cores, bytes, objects).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ResourceSample<'a> {
    /// Its name.
    pub resource: &'a str,
    /// The limit.
    pub hard: f64,
    /// What is used.
    pub used: f64,
    /// What is reserved.
    pub reserved: f64,
}

/// The owner of the quotas, asked at each scrape.
pub trait QuotaSource: Send + Sync {
    /// Visits every quota, always in the same order.
    fn visit(&self, visitor: &mut dyn FnMut(QuotaSample<'_>));
}

/// Writes at most `most` series per metric; what is over is summed up, per resource, as a quota
/// `_other_` in a namespace `_other_`.
pub(super) fn render(text: &mut String, source: &dyn QuotaSource, most: usize) {
    let mut amounts = String::new();
    let mut created = String::new();
    let mut left = most;
    let mut created_left = most;
    let mut rest: BTreeMap<String, [f64; 3]> = BTreeMap::new();
    source.visit(&mut |quota| {
        if created_left > 0 {
            created_left -= 1;
            let labels = [quota.name, quota.namespace];
            sample(
                &mut created,
                &table::KUBE_RESOURCEQUOTA_CREATED,
                &labels,
                quota.created,
            );
        }
        let whole = left >= 3 * quota.resources.len();
        if whole {
            left -= 3 * quota.resources.len();
        } else {
            left = 0;
        }
        for resource in &quota.resources {
            let numbers = [resource.hard, resource.used, resource.reserved];
            if whole {
                write(
                    &mut amounts,
                    quota.name,
                    quota.namespace,
                    resource.resource,
                    numbers,
                );
            } else {
                add(&mut rest, resource.resource, numbers);
            }
        }
    });
    if !rest.is_empty() || created_left == 0 {
        limit_reached(Limit::MetricsSeries);
    }
    for (resource, numbers) in rest {
        write(&mut amounts, OTHER, OTHER, &resource, numbers);
    }
    head(text, &table::KUBE_RESOURCEQUOTA);
    text.push_str(&amounts);
    head(text, &table::KUBE_RESOURCEQUOTA_CREATED);
    text.push_str(&created);
}

fn write(text: &mut String, name: &str, namespace: &str, resource: &str, numbers: [f64; 3]) {
    for (kind, number) in ["hard", "used", "reserved"].into_iter().zip(numbers) {
        let labels = [name, namespace, resource, kind];
        sample(text, &table::KUBE_RESOURCEQUOTA, &labels, number);
    }
}

/// Resources are named by whoever writes quotas, so even the sums are bounded.
const RESOURCES_OF_REST_MAX: usize = 100;

fn add(rest: &mut BTreeMap<String, [f64; 3]>, resource: &str, numbers: [f64; 3]) {
    let known = rest.len() < RESOURCES_OF_REST_MAX || rest.contains_key(resource);
    let resource = if known { resource } else { OTHER };
    let sums = rest.entry(resource.to_owned()).or_default();
    for (sum, number) in sums.iter_mut().zip(numbers) {
        *sum += number;
    }
}
