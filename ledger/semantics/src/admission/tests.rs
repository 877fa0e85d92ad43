use proptest::prelude::*;

use super::*;
use crate::object::EveryClass;

struct Quota {
    name: Name,
    spec: Spec,
    used: ResourceList,
}

impl Limit for Quota {
    fn name(&self) -> &Name {
        &self.name
    }

    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn hard(&self) -> &ResourceList {
        &self.spec.hard
    }

    fn counted(&self, name: &Name) -> Option<Quantity> {
        self.used.get(name).cloned()
    }
}

fn list(amounts: &[(&str, i64)]) -> ResourceList {
    amounts.iter().map(|(name, units)| (Name::from(*name), Quantity::from_units(*units))).collect()
}

fn quota(hard: &[(&str, i64)], used: &[(&str, i64)]) -> Quota {
    let spec = Spec { hard: list(hard), ..Spec::default() };
    Quota { name: Name::from("q"), spec, used: list(used) }
}

fn service(node_ports: i64) -> Footprint {
    let resources = list(&[("services", 1), ("services.nodeports", node_ports)]);
    Footprint { resources, ..Footprint::default() }
}

fn decide(
    quotas: &[Quota],
    operation: Operation,
    new: &Footprint,
    old: Option<&Footprint>,
) -> Result<Vec<ResourceList>, Denial> {
    let attempt = Attempt {
        kind: &GroupResource::new("", "services"),
        measured: false,
        operation,
        subresource: "",
        new,
        old,
        old_has_version: true,
        requirements: &|_| None,
        context: &EveryClass,
    };
    let charges = evaluate(quotas, &attempt, &[])?;
    let growth = |(name, growth, _): (&Name, &Quantity, _)| (name.clone(), growth.clone());
    Ok(charges.iter(quotas).map(|(_, charge)| charge.map(growth).collect()).collect())
}

proptest! {
    #[test]
    fn what_is_allowed_fits_every_quota_and_what_is_denied_fits_one_not(
        limits in prop::collection::vec((0_i64..20, 0_i64..20), 1..4),
        old in prop::option::of(0_i64..10),
        new in 0_i64..10,
    ) {
        let quotas: Vec<Quota> = limits
            .iter()
            .map(|(hard, used)| quota(&[("services.nodeports", *hard)], &[("services.nodeports", *used)]))
            .collect();
        let (operation, growth) = match old {
            Some(old) => (Operation::Update, (new - old).max(0)),
            None => (Operation::Create, new),
        };
        let old = old.map(service);
        let outcome = decide(&quotas, operation, &service(new), old.as_ref());
        let fits = growth == 0 || limits.iter().all(|(hard, used)| used + growth <= *hard);
        prop_assert_eq!(outcome.is_ok(), fits, "{:?}", outcome);
        if let Ok(charges) = outcome {
            let delta = list(&[("services.nodeports", growth)]);
            let expected = if growth == 0 { 0 } else { quotas.len() };
            prop_assert_eq!(charges.len(), expected);
            prop_assert!(charges.iter().all(|charge| *charge == delta));
        }
    }
}

#[test]
fn an_update_that_shrinks_passes_over_the_limit_and_one_that_grows_elsewhere_is_only_held_to_that()
{
    let over = [quota(
        &[("services", 1), ("services.nodeports", 2)],
        &[("services", 9), ("services.nodeports", 1)],
    )];
    assert_eq!(decide(&over, Operation::Update, &service(1), Some(&service(2))), Ok(vec![]));
    let charge = list(&[("services.nodeports", 1)]);
    assert_eq!(decide(&over, Operation::Update, &service(1), Some(&service(0))), Ok(vec![charge]));
    let text = decide(&over, Operation::Create, &service(1), None).unwrap_err().to_string();
    assert_eq!(
        text,
        "exceeded quota: q, requested: services=1, used: services=9, limited: services=1"
    );
}

#[test]
fn names_are_quoted_as_go_quotes_them() {
    let denial = Denial::NoPreviousVersion;
    let kind = GroupResource::new("apps", "deployments");
    let text = "unable to get previous usage since prior version of object was not found";
    assert_eq!(denial.message(&kind, "a"), format!("deployments.apps \"a\" is forbidden: {text}"));
    assert_eq!(denial.message(&kind, ""), format!("deployments.apps is forbidden: {text}"));
}
