//! The resource names that a quota may limit, and the rules for their values.

use crate::{
    Name,
    field::FieldError,
    object::names::{COUNT_PREFIX, HUGE_PAGES_PREFIX, REQUESTS_HUGE_PAGES_PREFIX, is_extended},
    quantity::Quantity,
    resource::ResourceList,
    syntax,
};

/// Resources that a quota may limit without a domain in the name.
const STANDARD: [&str; 19] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.storage",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "persistentvolumeclaims",
    "configmaps",
    "services.nodeports",
    "services.loadbalancers",
];

/// Counts of objects that have names of their own, in addition to `count/…`.
const COUNTS: [&str; 9] = [
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];

/// Compute resources that scopes on pods may be combined with.
const POD_COMPUTE: [&str; 6] =
    ["cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"];

/// The scopes of Kubernetes.
pub(super) const SCOPES: [&str; 7] = [
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "CrossNamespacePodAffinity",
    "VolumeAttributesClass",
];

fn is_huge_pages(name: &str) -> bool {
    name.starts_with(HUGE_PAGES_PREFIX) || name.starts_with(REQUESTS_HUGE_PAGES_PREFIX)
}

/// Whether a quota may limit this resource without a domain in its name.
pub(super) fn is_standard_for_quota(name: &str) -> bool {
    STANDARD.contains(&name) || is_huge_pages(name)
}

/// Whether the name is one of Kubernetes' own, even if it is not always valid in quotas.
pub(super) fn is_standard(name: &str) -> bool {
    is_standard_for_quota(name) || name == "storage"
}

/// Whether limits of this resource must be whole numbers.
pub(super) fn is_integer(name: &str) -> bool {
    COUNTS.contains(&name) || is_extended(name)
}

/// Whether a name is a count of objects.
pub fn is_count(name: &str) -> bool {
    name.starts_with(COUNT_PREFIX) || COUNTS.contains(&name)
}

/// Whether a quota with this scope may limit this resource. Any resource is allowed with an unknown scope, which is an
/// error by itself.
pub(super) fn may_have_scope(name: &str, scope: &str) -> bool {
    match scope {
        "BestEffort" => name == "pods",
        "Terminating"
        | "NotTerminating"
        | "NotBestEffort"
        | "PriorityClass"
        | "CrossNamespacePodAffinity" => name == "pods" || POD_COMPUTE.contains(&name),
        "VolumeAttributesClass" => name == "persistentvolumeclaims" || name == "requests.storage",
        _ => true,
    }
}

/// The errors of a resource list of a quota.
pub(crate) fn validate_list(field: &str, list: &ResourceList) -> impl Iterator<Item = FieldError> {
    let entry = move |(name, quantity): (&Name, &Quantity)| {
        let field = format!("{field}[{name}]");
        let mut errors = validate_name(&field, name);
        errors.extend(validate_quantity(&field, name, quantity));
        errors
    };
    list.iter().flat_map(entry)
}

fn validate_name(field: &str, name: &str) -> Vec<FieldError> {
    let mut wrong = syntax::qualified_name(name);
    if !name.contains('/') {
        if wrong.is_empty() && !is_standard(name) {
            wrong.push("must be a standard resource type or fully qualified".to_owned());
        }
        if !is_standard_for_quota(name) {
            wrong.push("must be a standard resource for quota".to_owned());
        }
    }
    wrong.into_iter().map(|detail| FieldError::invalid_text(field, name, detail)).collect()
}

fn validate_quantity(field: &str, name: &str, quantity: &Quantity) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if quantity.is_negative() {
        errors.push(FieldError::invalid(field, quantity, "must be greater than or equal to 0"));
    }
    if is_integer(name) && !quantity.passes_integer_check() {
        let detail = match quantity.is_whole() {
            false => "must be an integer",
            true => {
                "must be at most 9223372036854775: of larger numbers Kubernetes does not know whether they are integers"
            }
        };
        errors.push(FieldError::invalid(field, quantity, detail));
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Kubernetes says the same of both, which is untrue of one.
    #[test]
    fn a_whole_number_is_not_said_to_be_no_integer() {
        for (amount, detail) in [
            ("1500m", "must be an integer"),
            ("1000E", "must be at most 9223372036854775:"),
            ("1e-40", "must be an integer"),
        ] {
            let errors = validate_quantity("spec.hard[pods]", "pods", &amount.parse().unwrap());
            let [error] = &*errors else { panic!("{amount}: {errors:?}") };
            assert!(error.detail.starts_with(detail), "{amount}: {error}");
        }
        assert!(validate_quantity("f", "pods", &"9223372036854775".parse().unwrap()).is_empty());
    }

    #[test]
    fn counts_have_plain_names_or_a_prefix() {
        assert!(is_count("pods") && is_count("count/jobs.batch") && !is_count("requests.storage"));
    }
}
