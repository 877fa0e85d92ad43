//! A request for capacity, and how its repetitions are recognized.

use std::{borrow::Cow, sync::Arc};

use super::charging::relieved;
use crate::{
    event::{Requested, Reservation},
    state::State,
};
use quota_semantics::{
    Name, Span, Timestamp,
    object::{Footprint, GroupResource, Object, Traits},
    uid::Uid,
};

/// The operation that a reservation is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// Create the object.
    Create,
    /// Change the object from this version: the reservation ends when a later version is observed.
    Update {
        /// The version before the change; 0: unknown.
        version: u64,
    },
}

impl Basis {
    /// The version of the object before the operation; 0: none, or unknown.
    pub(super) const fn version(self) -> u64 {
        match self {
            Self::Create => 0,
            Self::Update { version } => version,
        }
    }
}

/// A request for capacity.
#[derive(Clone, Debug)]
pub struct Request {
    /// The object.
    pub uid: Uid,
    /// Its namespace.
    pub namespace: Name,
    /// Its group and resource.
    pub resource: GroupResource,
    /// Its name; empty: unknown.
    pub name: Box<str>,
    /// Its apiVersion, as the caller gave it.
    pub api_version: Name,
    /// Its kind, as the caller gave it.
    pub kind: Name,
    /// Whether the object is created or changed.
    pub basis: Basis,
    /// The subresource of the request, as in `resize`; empty: none.
    pub subresource: Name,
    /// The requested footprint.
    pub footprint: Arc<Footprint>,
    /// The footprint before the change, according to the caller; only for updates of objects that are not observed yet.
    pub before: Option<Arc<Footprint>>,
    /// The object, to check which resources its containers specify; none: they are not checked.
    pub object: Option<Arc<Object>>,
    /// The time to live of the reservation; none: the configured default.
    pub ttl: Option<Span>,
}

impl Request {
    /// The request as it counts; see [`relieved`].
    pub(super) fn counted(&self, state: &State) -> Cow<'_, Self> {
        let before = self.before.as_ref();
        if self.footprint.payer.is_none() && before.is_none_or(|before| before.payer.is_none()) {
            return Cow::Borrowed(self);
        }
        let relieved = |footprint: &Arc<Footprint>| {
            let footprint = Footprint::clone(footprint);
            Arc::new(relieved(state, &self.namespace, &self.uid, footprint))
        };
        Cow::Owned(Self {
            footprint: relieved(&self.footprint),
            before: before.map(relieved),
            ..self.clone()
        })
    }

    /// Whether the reservation was granted for an equal request: for the same object and equal amounts, however they are
    /// written; zeros and the time to live do not matter. `requested`: the footprint as it was requested, where
    /// `self.footprint` is what counts of it.
    pub(super) fn made(&self, requested: &Footprint, reservation: &Reservation) -> bool {
        let basis = reservation.requested.as_ref().map_or(Basis::Create, |it| it.basis());
        basis == self.basis
            && self.namespace == reservation.namespace
            && self.name == reservation.name
            && self.kind == reservation.kind
            && self.api_version == reservation.api_version
            && are_equal(requested, reservation.requested_footprint())
    }

    /// The footprint that a reservation of `held` has to keep beside it, so that repetitions are recognized.
    /// `requested`: the footprint as it was requested.
    pub(super) fn kept<'f>(
        &self,
        requested: &'f Arc<Footprint>,
        held: &Footprint,
    ) -> Option<&'f Arc<Footprint>> {
        (self.basis != Basis::Create || !are_equal(requested, held)).then_some(requested)
    }

    /// The reservation to grant for this request, and what it keeps beside its footprint; see [`Self::kept`].
    pub(super) fn reservation(
        &self,
        footprint: Arc<Footprint>,
        kept: Option<&Arc<Footprint>>,
        now: Timestamp,
        ttl: Span,
    ) -> Reservation {
        Reservation {
            uid: self.uid.clone(),
            namespace: self.namespace.clone(),
            resource: self.resource.name(),
            name: self.name.clone(),
            api_version: self.api_version.clone(),
            kind: self.kind.clone(),
            footprint,
            created: now,
            expiration: now.plus(ttl),
            after_version: self.basis.version(),
            requested: kept.map(|requested| {
                Box::new(Requested {
                    footprint: match requested.payer {
                        None => requested.clone(),
                        Some(_) => {
                            Arc::new(Footprint { payer: None, ..Footprint::clone(requested) })
                        }
                    },
                    after_version: match self.basis {
                        Basis::Create => None,
                        Basis::Update { version } => Some(version),
                    },
                })
            }),
        }
    }
}

impl Requested {
    fn basis(&self) -> Basis {
        self.after_version.map_or(Basis::Create, |version| Basis::Update { version })
    }
}

/// Whether two requested footprints are for equal amounts of the same resources, apart from those of which they need
/// nothing.
fn are_equal(one: &Footprint, other: &Footprint) -> bool {
    // Mostly a reservation shares the footprint of its request.
    if std::ptr::eq(one, other) {
        return true;
    }
    let are_traits_equal = match (&one.traits, &other.traits) {
        (
            Traits::Template { pod, replica },
            Traits::Template { pod: other_pod, replica: other_replica },
        ) => pod == other_pod && replica.is_equal_but_for_zeros(other_replica),
        (traits, other) => traits == other,
    };
    are_traits_equal
        && one.labels == other.labels
        && one.resources.is_equal_but_for_zeros(&other.resources)
}

#[cfg(test)]
mod tests {
    use super::*;
    use quota_semantics::{object::PodTraits, resource::ResourceList};

    fn request() -> Request {
        let amounts = [("pods", "1"), ("requests.cpu", "250m")];
        let amounts = amounts.map(|(name, text)| (Name::from(name), text.parse().unwrap()));
        Request {
            uid: Uid::new("u-1").unwrap(),
            namespace: "team-a".into(),
            resource: GroupResource::new("", "pods"),
            name: "web".into(),
            api_version: "v1".into(),
            kind: "Pod".into(),
            basis: Basis::Create,
            subresource: Name::default(),
            footprint: Arc::new(Footprint {
                resources: ResourceList::from_iter(amounts),
                ..Footprint::default()
            }),
            before: None,
            object: None,
            ttl: Some(Span::from_seconds(30)),
        }
    }

    fn amounts(amounts: &[(&str, &str)]) -> ResourceList {
        let amounts = amounts.iter();
        amounts.map(|(name, text)| (Name::from(*name), text.parse().unwrap())).collect()
    }

    fn with_amounts(resources: ResourceList) -> Request {
        let footprint = Arc::new(Footprint { resources, ..Footprint::default() });
        Request { footprint, ..request() }
    }

    fn granted_for(
        request: &Request,
        requested: &Arc<Footprint>,
        held: &Arc<Footprint>,
    ) -> Reservation {
        let kept = request.kept(requested, held);
        request.reservation(held.clone(), kept, Timestamp::EPOCH, Span::ZERO)
    }

    fn granted(request: &Request) -> Reservation {
        granted_for(request, &request.footprint, &request.footprint)
    }

    /// Whether the second request is a repetition of the first.
    fn repeats(first: &Request, second: &Request) -> bool {
        second.made(&second.footprint, &granted(first))
    }

    #[test]
    fn equal_amounts_are_equal_requests() {
        let written = [
            [("memory", "1Gi"), ("pods", "1")],
            [("memory", "1073741824"), ("pods", "1e0")],
            [("memory", "1048576Ki"), ("pods", "1000m")],
            [("memory", "1073741824000m"), ("pods", "01")],
        ];
        let zeros = [("requests.cpu", "0"), ("configmaps", "0Ki")];
        let first = with_amounts(amounts(&written[0]));
        for written in written {
            assert!(repeats(&first, &with_amounts(amounts(&written))));
            let with_zeros = with_amounts(amounts(&[&written[..], &zeros[..]].concat()));
            assert!(repeats(&first, &with_zeros) && repeats(&with_zeros, &first));
        }
        let others = [amounts(&[("memory", "1Gi"), ("pods", "2")]), amounts(&[("memory", "1Gi")])];
        for other in others.map(with_amounts) {
            assert!(!repeats(&first, &other) && !repeats(&other, &first));
        }
        let template = |cpu: &str| {
            let replica = amounts(&[("requests.cpu", cpu)]);
            let mut request = request();
            Arc::make_mut(&mut request.footprint).traits =
                Traits::Template { pod: PodTraits::default(), replica };
            request
        };
        assert!(repeats(&template("1"), &template("1000m")));
        assert!(!repeats(&template("1"), &template("2")));
    }

    #[test]
    fn only_what_is_requested_makes_another_request() {
        let request = request();
        for ttl in [None, Some(Span::from_seconds(31))] {
            assert!(repeats(&request, &Request { ttl, ..request.clone() }));
        }
        let labels = [("app".into(), "web".into())];
        let others = [
            Request { name: "web-2".into(), ..request.clone() },
            Request { kind: "Job".into(), ..request.clone() },
            Request { api_version: "v2".into(), ..request.clone() },
            Request { namespace: "team-b".into(), ..request.clone() },
            Request { footprint: Arc::default(), ..request.clone() },
            Request {
                footprint: Arc::new(Footprint {
                    labels: labels.into(),
                    ..Footprint::clone(&request.footprint)
                }),
                ..request.clone()
            },
            Request { basis: Basis::Update { version: 0 }, ..request.clone() },
            Request { basis: Basis::Update { version: 1 }, ..request.clone() },
        ];
        for (place, other) in others.iter().enumerate() {
            assert!(repeats(other, other), "{other:?}");
            let before = others[..place].iter().chain([&request]);
            for first in before {
                assert!(!repeats(first, other) && !repeats(other, first), "{first:?} {other:?}");
            }
        }
    }

    /// What is held may be other than what was requested, and change.
    #[test]
    fn a_request_is_recognized_by_what_was_requested() {
        let request = request();
        let held = with_amounts(amounts(&[("pods", "1"), ("requests.cpu", "9")])).footprint;
        let now = Timestamp::EPOCH;
        let more = granted_for(&request, &request.footprint, &held);
        let mut grown = granted(&request);
        assert!(grown.requested.is_none() && more.requested.is_some());
        grown.grow(held.clone(), now);
        for mut reservation in [more, grown] {
            assert_eq!(reservation.footprint, held);
            reservation.grow(Arc::default(), now);
            assert!(request.made(&request.footprint, &reservation));
            assert!(!request.made(&held, &reservation));
        }
        let relieved = Request { footprint: held, ..request.clone() };
        let charged = Arc::new(Footprint {
            payer: Some(Box::new(Uid::new("payer").unwrap())),
            ..Footprint::clone(&request.footprint)
        });
        let granted = granted_for(&relieved, &charged, &relieved.footprint);
        assert!(relieved.made(&charged, &granted) && request.made(&request.footprint, &granted));
    }
}
