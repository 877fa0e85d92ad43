//! Resources that no quota and no group limits. The most frequent cause is a misspelled name of a resource or
//! namespace.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{Policy, case::Case};
use crate::state::{self, Counted};
use quota_semantics::{Name, admission::Denial, quantity::Quantity};

/// The most names that a warning lists; the rest is counted.
const NAMES_MAX: usize = 8;

/// How requests for resources that nothing limits are decided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unlimited {
    /// They are granted.
    Allow,
    /// They are granted with a warning.
    #[default]
    Warn,
    /// They are denied, with the message of Kubernetes for limited resources that no quota covers.
    Deny,
}

impl Case<'_> {
    /// The names to warn of, among those of the object that nothing limits.
    pub(super) fn unlimited_to_warn_of(
        &self,
        limits: &[Counted<'_>],
        unlimited: &[Name],
        policy: &Policy,
    ) -> Vec<Name> {
        match policy.unlimited {
            Unlimited::Warn => self.reported(limits, unlimited),
            Unlimited::Allow | Unlimited::Deny => Vec::new(),
        }
    }

    /// Denies a request for resources that nothing limits, if that is the policy.
    pub(super) fn refuse_unlimited(
        &self,
        limits: &[Counted<'_>],
        policy: &Policy,
    ) -> Result<(), Denial> {
        if policy.unlimited != Unlimited::Deny {
            return Ok(());
        }
        let names = self.reported(limits, &state::unlimited(limits, &self.target));
        match names.is_empty() {
            true => Ok(()),
            false => Err(Denial::InsufficientQuota { names }),
        }
    }

    /// Those of the names that nothing limits that are requested beyond the amounts counted or held already.
    ///
    /// For an object, whose names the caller did not choose, one name stands for each thing: `requests.cpu` for `cpu`
    /// and `limits.cpu` as well. The count of its kind is among the names only if nothing else of the object is
    /// limited.
    fn reported(&self, limits: &[Counted<'_>], unlimited: &[Name]) -> Vec<Name> {
        if unlimited.is_empty() {
            return Vec::new();
        }
        let mut names = unlimited.to_vec();
        let wanted = self.wanted();
        names.retain(|name| wanted.get(name).is_some_and(Quantity::is_positive));
        if self.request.object.is_none() {
            return names;
        }
        if state::limited(limits, &self.target).contains(&true) {
            names.retain(|name| !state::is_count(name));
        }
        let is_request = |name: &&Name| name.starts_with(state::REQUESTS);
        let requests: Vec<Name> = names.iter().filter(is_request).cloned().collect();
        let requested: BTreeSet<&str> = requests.iter().map(Name::bare).collect();
        names.retain(|name| is_request(&name) || !requested.contains(name.bare()));
        names
    }
}

/// A warning about the resources of a namespace that nothing limits; none if there are no such resources.
#[must_use]
pub fn warning_of_unlimited(namespace: &str, names: &[Name]) -> Option<String> {
    let (first, rest) = names.split_at(names.len().min(NAMES_MAX));
    let listed: Vec<&str> = first.iter().map(Name::as_str).collect();
    let more = match rest.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let listed = listed.join(", ");
    (!listed.is_empty())
        .then(|| format!("no quota of namespace {namespace:?} limits {listed}{more}"))
}
