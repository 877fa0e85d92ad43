//! The limits that the webhook enforces.
//!
//! The API server calls the webhook only for the kinds in the webhook's rules. A limit on the number of objects of
//! another kind is counted, but not enforced.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::{
    Name,
    object::{Evaluator, GroupResource, is_ignored, plain_count_name},
    resource::ResourceList,
};

/// The kind whose objects a limit counts: `count/deployments.apps`, `configmaps`. None: an amount of pods, services or
/// claims other than their number.
pub fn counted_kind(limit: &str) -> Option<GroupResource> {
    if let Some(kind) = limit.strip_prefix("count/") {
        return kind.parse().ok();
    }
    let kind = GroupResource::new("", limit);
    let is_plain = plain_count_name(&kind).is_some();
    is_plain.then_some(kind)
}

/// The kinds for which the webhook is called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage(Option<BTreeSet<GroupResource>>);

impl Coverage {
    /// The webhook is called for every kind that a quota limits, or is not used for enforcement.
    pub const fn everything() -> Self {
        Self(None)
    }

    /// The webhook is called for these kinds, and for those that count for more than their number.
    pub fn of(kinds: impl IntoIterator<Item = GroupResource>) -> Self {
        Self(Some(kinds.into_iter().collect()))
    }

    /// Whether the webhook is called for requests that could exceed this limit.
    pub fn covers(&self, limit: &str) -> bool {
        let Some(kinds) = &self.0 else {
            return true;
        };
        counted_kind(limit).is_none_or(|kind| {
            !matches!(Evaluator::of(&kind), Evaluator::Count(_)) || kinds.contains(&kind)
        })
    }

    /// The limits that are not enforced.
    pub fn uncovered<'a>(&'a self, hard: &'a ResourceList) -> impl Iterator<Item = &'a Name> {
        let limits = hard.iter().map(|(limit, _)| limit);
        limits.filter(|limit| !self.covers(limit))
    }
}

/// A rule of a ValidatingWebhookConfiguration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WebhookRule {
    operations: &'static [&'static str],
    api_groups: [String; 1],
    api_versions: [&'static str; 1],
    resources: Vec<String>,
    scope: &'static str,
}

impl WebhookRule {
    fn new(operations: &'static [&'static str], group: &str, resources: &[&str]) -> Self {
        Self {
            operations,
            api_groups: [group.to_owned()],
            api_versions: ["*"],
            resources: resources.iter().map(|&resource| resource.to_owned()).collect(),
            scope: "Namespaced",
        }
    }
}

/// The rules of the webhook: creations of counting objects, and changes by which they can grow. `counted`: kinds whose
/// number is limited; `charged`: workloads that are charged for their pods.
pub fn webhook_rules<'a>(
    counted: impl IntoIterator<Item = &'a GroupResource>,
    charged: impl IntoIterator<Item = &'a GroupResource>,
) -> Vec<WebhookRule> {
    const CREATE: &[&str] = &["CREATE"];
    const BOTH: &[&str] = &["CREATE", "UPDATE"];
    const UPDATE: &[&str] = &["UPDATE"];
    let core = ["pods", "services", "persistentvolumeclaims"];
    let parts = ["pods/resize", "persistentvolumeclaims/status"];
    let mut rules = vec![
        WebhookRule::new(BOTH, "", &core),
        WebhookRule::new(UPDATE, "", &parts),
        WebhookRule::new(BOTH, "resource.k8s.io", &["resourceclaims"]),
    ];
    let is_further = |kind: &&GroupResource| {
        matches!(Evaluator::of(kind), Evaluator::Count(_)) && !is_ignored(kind)
    };
    let counted = counted.into_iter().filter(is_further);
    rules.extend(counted.map(|kind| WebhookRule::new(CREATE, &kind.group, &[&kind.resource])));
    for kind in charged {
        let scale = format!("{}/scale", kind.resource);
        rules.push(WebhookRule::new(BOTH, &kind.group, &[&kind.resource]));
        rules.push(WebhookRule::new(UPDATE, &kind.group, &[&scale]));
    }
    rules
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(names: &[&str]) -> Vec<GroupResource> {
        names.iter().map(|name| name.parse().unwrap()).collect()
    }

    #[test]
    fn limits_on_the_number_of_other_kinds_need_a_rule() {
        let limits = [
            "pods",
            "count/pods",
            "requests.cpu",
            "services.nodeports",
            "gold.storageclass.storage.k8s.io/requests.storage",
            "count/resourceclaims.resource.k8s.io",
            "requests.example.com/units",
            "configmaps",
            "count/configmaps",
            "count/widgets.x.y",
            "count/jobs.batch",
        ];
        let uncovered = |coverage: Coverage| {
            let one = crate::quantity::Quantity::from_units(1);
            let hard = limits.iter().map(|&name| (Name::from(name), one.clone()));
            let hard: ResourceList = hard.collect();
            let names = coverage.uncovered(&hard).map(ToString::to_string);
            names.collect::<BTreeSet<_>>()
        };
        let none = BTreeSet::<String>::new();
        assert_eq!(uncovered(Coverage::everything()), none);
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        let all =
            names(&["configmaps", "count/configmaps", "count/widgets.x.y", "count/jobs.batch"]);
        assert_eq!(uncovered(Coverage::of([])), all);
        let some = Coverage::of(kinds(&["configmaps", "jobs.batch"]));
        assert_eq!(uncovered(some), names(&["count/widgets.x.y"]));
    }

    #[test]
    fn a_quota_has_its_kinds_counted() {
        let found = ["count/widgets.x.y", "configmaps", "cpu", "count/", "pods"].map(counted_kind);
        let expected = [Some("widgets.x.y"), Some("configmaps"), None, None, None];
        assert_eq!(found, expected.map(|name| name.map(|name| name.parse().unwrap())));
    }

    /// The covered kinds are those that the rules list.
    #[test]
    fn there_is_a_rule_for_each_kind_that_is_covered() {
        let counted = kinds(&["configmaps", "widgets.x.y", "pods", "events"]);
        let rules = webhook_rules(&counted, &kinds(&["jobs.batch"]));
        let listed: Vec<_> = rules
            .iter()
            .flat_map(|rule| rule.resources.iter().map(|name| (&*rule.api_groups[0], &**name)))
            .collect();
        let expected = [
            ("", "pods"),
            ("", "services"),
            ("", "persistentvolumeclaims"),
            ("", "pods/resize"),
            ("", "persistentvolumeclaims/status"),
            ("resource.k8s.io", "resourceclaims"),
            ("", "configmaps"),
            ("x.y", "widgets"),
            ("batch", "jobs"),
            ("batch", "jobs/scale"),
        ];
        assert_eq!(listed, expected);
    }
}
