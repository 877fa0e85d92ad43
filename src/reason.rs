//! Reasons of refusals: maps the core's refusals and denials to [`Reason`].

use http::StatusCode;
use quota_core::decide::Refusal;
use quota_semantics::admission::Denial;

pub use quota_client::wire::Reason;

/// The HTTP status of a reason.
#[must_use]
pub fn status(reason: Reason) -> StatusCode {
    StatusCode::from_u16(reason.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

/// The reason of a refusal.
#[must_use]
pub(crate) fn of_refusal(refusal: &Refusal) -> Reason {
    match refusal {
        Refusal::Denied(denied) => of_denial(&denied.denial),
        Refusal::UidReused(_) => Reason::UidReused,
        Refusal::NotOwner(_) => Reason::NotOwner,
        Refusal::Ended(_) => Reason::ReservationEnded,
        Refusal::TooManyPending { .. } => Reason::TooManyReservations,
        Refusal::LimitReached { .. } => Reason::LimitReached,
        Refusal::InvalidTtl { .. } | Refusal::Invalid(_) => Reason::Invalid,
        Refusal::NotReady { .. } => Reason::NotReady,
        Refusal::NotFound(_) => Reason::NotFound,
        Refusal::Expired(_) => Reason::ReservationExpired,
        Refusal::AlreadyObserved(_) => Reason::AlreadyObserved,
        Refusal::AlreadyReleased(_) => Reason::AlreadyReleased,
        Refusal::ExceedsReservation { .. } => Reason::ExceedsReservation,
        Refusal::Conflict { .. }
        | Refusal::Adopted { .. }
        | Refusal::Moved { .. }
        | Refusal::NotObserved { .. } => Reason::Conflict,
    }
}

/// The reason of a denial.
#[must_use]
pub(crate) const fn of_denial(denial: &Denial) -> Reason {
    match denial {
        Denial::ExceedsHard { .. } => Reason::ExceedsHard,
        Denial::MustSpecify { .. } => Reason::MustSpecify,
        Denial::StatusUnknown { .. } => Reason::StatusUnknown,
        Denial::InsufficientQuota { .. } => Reason::InsufficientQuota,
        Denial::UncoveredScopes { .. } => Reason::UncoveredScopes,
        Denial::NegativeUsage { .. } => Reason::NegativeUsage,
        Denial::NoPreviousVersion => Reason::NoPreviousVersion,
        Denial::BrokenSelector { .. } => Reason::BrokenSelector,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_stands_in_the_docs_with_its_status() {
        let docs = include_str!("../docs/api.md");
        for reason in Reason::ALL {
            let item = format!("\n- `{}` ({}): ", reason.as_str(), reason.status());
            assert!(docs.contains(&item), "docs/api.md has no item {item}");
        }
        let (_, problems) = docs.split_once("## Problems").unwrap();
        let items = problems.lines().filter(|line| line.starts_with("- `"));
        assert_eq!(items.count(), Reason::ALL.len(), "docs/api.md has a reason that is none");
    }
}
