//! Which limits are in force: those that the webhook is called for, and whose objects somebody reports.

use std::sync::Arc;

use parking_lot::RwLock;
use quota_client::wire::Condition;
use quota_core::state::{State, WatermarkView};
use quota_semantics::{
    Name, Span, Timestamp,
    admission::{Coverage, counted_kind},
    object::{GroupResource, is_ignored},
    resource::ResourceList,
};

use crate::{now, writer::Watermark};

/// Determines which limits are in force.
#[derive(Debug)]
pub struct Enforcement {
    coverage: Coverage,
    watermark: Arc<Watermark>,
    state: Arc<RwLock<State>>,
}

/// A kind whose objects nobody reports, so that limits on their number hold only as long as reservations are held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotReported {
    /// The kind.
    pub kind: GroupResource,
    /// Why.
    pub reason: Reason,
}

/// Why the objects of a kind are not reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The publisher cannot list or watch the kind; the HTTP status, as in `403`, or what else fails.
    Failing(Name),
    /// The publisher has never reported the kind.
    Never,
    /// The publisher has not listed the kind since it lost messages, or at all.
    NotListed,
    /// The cluster did not have the kind, or the publisher did not watch it, when it last reported it.
    Absent,
    /// All changes up to this time are known, which is long ago.
    Late(Timestamp),
}

impl Reason {
    /// Why a kind is not reported, of which this is the last report; none if it is reported.
    pub fn new(last: Option<&WatermarkView>, max_age: Span, now: Timestamp) -> Option<Self> {
        let Some(view) = last else {
            return Some(Self::Never);
        };
        let reported = &view.reported;
        if view.counts && now.since(reported.watermark) <= max_age {
            return None;
        }
        Some(match (&reported.failing, reported.is_absent, view.counts) {
            (failing, ..) if !failing.is_empty() => Self::Failing(failing.clone()),
            (_, true, _) => Self::Absent,
            (.., false) => Self::NotListed,
            (.., true) => Self::Late(reported.watermark),
        })
    }

    /// For the label of a metric.
    pub fn label(&self) -> &str {
        match self {
            Self::Failing(code) => code,
            Self::Never => "never",
            Self::NotListed => "not_listed",
            Self::Absent => "absent",
            Self::Late(_) => "late",
        }
    }
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Failing(code) if &**code == "403" => {
                f.write_str("the publisher may not list or watch it (403)")
            }
            Self::Failing(code) => write!(f, "the publisher cannot list or watch it ({code})"),
            Self::Never => f.write_str("no publisher has reported it"),
            Self::NotListed => f.write_str("it is not listed yet"),
            Self::Absent => f.write_str("the publisher does not watch it"),
            Self::Late(time) => write!(f, "not reported since {time}"),
        }
    }
}

impl Enforcement {
    pub(crate) const fn new(
        coverage: Coverage,
        watermark: Arc<Watermark>,
        state: Arc<RwLock<State>>,
    ) -> Self {
        Self { coverage, watermark, state }
    }

    /// Whether the webhook is called for requests that could exceed this limit.
    pub fn covers(&self, limit: &str) -> bool {
        self.coverage.covers(limit)
    }

    /// Names the limits that the webhook is not called for, in a sentence for people; none if it is called for all.
    pub fn not_enforced(&self, hard: &ResourceList) -> Option<String> {
        let names: Vec<&str> = self.coverage.uncovered(hard).map(|name| &**name).collect();
        (!names.is_empty()).then(|| {
            format!(
                "not enforced: {}: the webhook's rules do not list what they count (admission.count)",
                names.join(", ")
            )
        })
    }

    /// The kind that a limit counts, if nobody reports it although a publisher reports kinds.
    pub fn not_reported(&self, limit: &str) -> Option<NotReported> {
        let required = self.watermark.required()?;
        let kind = counted_kind(limit).filter(|kind| !is_ignored(kind))?;
        let last = self.state.read().report(&required.source, &kind.name());
        let reason = Reason::new(last.as_ref(), required.max_age, now())?;
        Some(NotReported { kind, reason })
    }

    /// The conditions of a quota or group with these limits: what of them is not in force.
    pub fn conditions(&self, hard: &ResourceList) -> Vec<Condition> {
        let condition = |kind: &str, reason: &str, message| Condition {
            r#type: kind.to_owned(),
            status: "False".to_owned(),
            reason: reason.to_owned(),
            message,
        };
        let enforced = self.not_enforced(hard);
        let enforced = enforced.map(|message| condition("Enforced", "NotAskedAbout", message));
        let limits = hard.iter().map(|(limit, _)| limit);
        let not_reported = limits.filter_map(|limit| {
            let NotReported { kind, reason } = self.not_reported(limit)?;
            Some(format!("{limit}: nobody reports {kind}: {reason}"))
        });
        let not_reported: Vec<_> = not_reported.collect();
        let reported = (!not_reported.is_empty())
            .then(|| condition("Reported", "NotReported", not_reported.join("; ")));
        enforced.into_iter().chain(reported).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quota_core::event;

    #[test]
    fn a_kind_is_reported_while_it_is_listed_and_its_watermark_is_recent() {
        let at = |seconds| Timestamp::EPOCH.plus(Span::from_seconds(seconds));
        let view = |seconds, counts, is_absent, failing: &str| WatermarkView {
            reported: event::Watermark {
                resource: "pods".into(),
                watermark: at(seconds),
                version: 1,
                is_absent,
                failing: failing.into(),
            },
            counts,
        };
        let why = |view| Reason::new(Some(&view), Span::from_seconds(90), at(100));
        assert_eq!(why(view(10, true, false, "")), None);
        assert_eq!(why(view(10, true, false, "503")), None, "it fails since now");
        assert_eq!(why(view(10, true, true, "")), None);
        assert_eq!(why(view(9, true, false, "")), Some(Reason::Late(at(9))));
        assert_eq!(why(view(9, true, true, "")), Some(Reason::Absent));
        assert_eq!(why(view(99, false, false, "")), Some(Reason::NotListed));
        let forbidden = why(view(0, false, false, "403")).unwrap();
        assert_eq!(forbidden, Reason::Failing("403".into()));
        assert!(forbidden.to_string().contains("403"), "{forbidden}");
        assert_eq!(forbidden.label(), "403");
        assert_eq!(Reason::new(None, Span::from_seconds(90), at(100)), Some(Reason::Never));
    }
}
