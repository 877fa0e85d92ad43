use proptest::prelude::*;

use super::*;

fn any_pod() -> impl Strategy<Value = Traits> {
    (any::<bool>(), any::<bool>(), "(|low|high)", any::<bool>()).prop_map(
        |(best_effort, terminating, class, cross_namespace_affinity)| {
            Traits::Pod(PodTraits {
                best_effort,
                terminating,
                priority_class: Name::from(class),
                cross_namespace_affinity,
            })
        },
    )
}

fn scope<'s>(name: &'s str, operator: &'s str, values: &'s [Name]) -> Scope<'s> {
    Scope { name, operator, values }
}

proptest! {
    #[test]
    fn a_pod_matches_a_scope_or_its_opposite(pod in any_pod(), values in prop::collection::vec("(low|high)", 1..3)) {
        let values: Vec<Name> = values.into_iter().map(Name::from).collect();
        for (one, other) in [
            (scope("Terminating", "Exists", &[]), scope("NotTerminating", "Exists", &[])),
            (scope("BestEffort", "Exists", &[]), scope("NotBestEffort", "Exists", &[])),
            (scope("PriorityClass", "In", &values), scope("PriorityClass", "NotIn", &values)),
            (scope("PriorityClass", "Exists", &[]), scope("PriorityClass", "DoesNotExist", &[])),
        ] {
            prop_assert_ne!(one.matches(&pod), other.matches(&pod), "{} and {}", one, other);
        }
    }

    #[test]
    fn a_quota_matches_if_each_of_its_scopes_does(pod in any_pod(), picked in prop::sample::subsequence(
        vec!["Terminating", "NotTerminating", "BestEffort", "NotBestEffort", "CrossNamespacePodAffinity"], 0..=5,
    )) {
        let spec = Spec { scopes: picked.iter().copied().map(Name::from).collect(), ..Spec::default() };
        let each = picked.iter().all(|name| scope(name, "Exists", &[]).matches(&pod) == Ok(true));
        prop_assert_eq!(matches(&spec, &pod), Ok(each));
    }
}

#[test]
fn every_fault_of_a_selector_is_told() {
    let values = [Name::from("-x"), Name::from("<&>")];
    let broken = scope("PriorityClass", "DoesNotExist", &values);
    let pod = Traits::Pod(PodTraits::default());
    let text = broken.matches(&pod).unwrap_err().to_string();
    assert!(text.starts_with(
        "failed to parse and convert selector: [values: Invalid value: \
         [\"-x\",\"\\u003c\\u0026\\u003e\"]: values set must be empty for exists and does not exist, \
         values[0][PriorityClass]: Invalid value: \"-x\": a valid label must be"
    ), "{text}");
    assert_eq!(broken.matches(&Traits::Plain), Ok(false));

    let long = [Name::from("a".repeat(64))];
    let text = scope("PriorityClass", "In", &long).matches(&pod).unwrap_err().to_string();
    assert!(text.ends_with(": must be no more than 63 bytes"), "{text}");
}
