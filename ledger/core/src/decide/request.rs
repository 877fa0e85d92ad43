//! A request for capacity, and the digest that identifies its repetitions.

use std::{
    borrow::Cow,
    ops::Deref,
    sync::{Arc, OnceLock},
};

use super::charging::relieved;
use crate::{
    codec::{Wire, Writer, put_in_format},
    event::Reservation,
    state::State,
};
use quota_semantics::{
    Name, Span, Timestamp,
    object::{Footprint, GroupResource, Object, Traits},
    quantity::Format,
    resource::ResourceList,
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
    pub footprint: Footprint,
    /// The footprint before the change, according to the caller; only for updates of objects that are not observed yet.
    pub before: Option<Footprint>,
    /// The object, to check which resources its containers specify; none: they are not checked.
    pub object: Option<Arc<Object>>,
    /// The time to live of the reservation; none: the configured default.
    pub ttl: Option<Span>,
}

/// A request that can no longer be changed, so its digest is computed only once.
#[derive(Clone, Debug)]
pub struct FingerprintedRequest {
    request: Request,
    digest: OnceLock<[u8; 16]>,
}

impl From<Request> for FingerprintedRequest {
    fn from(request: Request) -> Self {
        Self { request, digest: OnceLock::new() }
    }
}

impl Deref for FingerprintedRequest {
    type Target = Request;

    fn deref(&self) -> &Request {
        &self.request
    }
}

impl FingerprintedRequest {
    /// The digest of the request. A repeated request has the same: it is for the same object, and for equal amounts,
    /// however they are written and whether or not it names resources of which it needs nothing. The time to live makes
    /// no other request: it concerns the answer to the first one. Computing the digest takes as long as the decision, so
    /// callers should compute it before they take the writer's turn.
    pub fn digest(&self) -> [u8; 16] {
        *self.digest.get_or_init(|| self.request.digest())
    }

    /// The request as it counts; see [`relieved`].
    pub(super) fn counted(&self, state: &State) -> Cow<'_, Self> {
        let before = self.before.as_ref();
        if self.footprint.payer.is_none() && before.is_none_or(|before| before.payer.is_none()) {
            return Cow::Borrowed(self);
        }
        let digest = self.digest();
        let relieved = |footprint| relieved(state, &self.namespace, &self.uid, footprint);
        Cow::Owned(Self {
            request: Request {
                footprint: relieved(self.footprint.clone()),
                before: self.before.clone().map(relieved),
                ..self.request.clone()
            },
            digest: OnceLock::from(digest),
        })
    }

    /// Whether this request made the reservation.
    pub(super) fn is_that_of(&self, reservation: &Reservation) -> bool {
        self.digest() == reservation.request
    }

    /// The reservation to grant for this request.
    pub(super) fn reservation(
        &self,
        footprint: Footprint,
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
            request: self.digest(),
        }
    }
}

impl Request {
    fn digest(&self) -> [u8; 16] {
        let mut writer = Writer::spelling();
        self.namespace.put(&mut writer);
        self.api_version.put(&mut writer);
        self.kind.put(&mut writer);
        self.name.put(&mut writer);
        let Footprint { resources, traits, labels, payer: _ } = &self.footprint;
        put_numbers(resources, &mut writer);
        match traits {
            Traits::Template { pod, replica } => {
                Traits::Pod(pod.clone()).put(&mut writer);
                put_numbers(replica, &mut writer);
            }
            traits => traits.put(&mut writer),
        }
        labels.put(&mut writer);
        if let Basis::Update { version } = self.basis {
            version.put(&mut writer);
        }
        let hash = blake3::hash(&writer.finish());
        let mut short = [0; 16];
        short.copy_from_slice(&hash.as_bytes()[..16]);
        short
    }
}

/// Writes the amounts that are not zero, as numbers: in one family.
fn put_numbers(amounts: &ResourceList, writer: &mut Writer) {
    let amounts = || amounts.iter().filter(|(_, amount)| !amount.is_zero());
    writer.count(amounts().count());
    for (name, amount) in amounts() {
        writer.text(name);
        put_in_format(amount, Format::DecimalSI, writer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quota_semantics::object::PodTraits;

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
            footprint: Footprint {
                resources: ResourceList::from_iter(amounts),
                ..Footprint::default()
            },
            before: None,
            object: None,
            ttl: Some(Span::from_seconds(30)),
        }
    }

    fn hex(digest: [u8; 16]) -> String {
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn amounts(amounts: &[(&str, &str)]) -> ResourceList {
        let amounts = amounts.iter();
        amounts.map(|(name, text)| (Name::from(*name), text.parse().unwrap())).collect()
    }

    fn with_amounts(resources: ResourceList) -> Request {
        Request { footprint: Footprint { resources, ..Footprint::default() }, ..request() }
    }

    /// Ledgers hold these digests: they have to identify repeated requests for ever.
    #[test]
    fn digests_are_made_as_ever() {
        assert_eq!(hex(request().digest()), "4ae70b36d31b23e42e5dadc22641c86f");
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
        let first = with_amounts(amounts(&written[0])).digest();
        for written in written {
            assert_eq!(with_amounts(amounts(&written)).digest(), first);
            let with_zeros = with_amounts(amounts(&[&written[..], &zeros[..]].concat()));
            assert_eq!(with_zeros.digest(), first);
        }
        let other = with_amounts(amounts(&[("memory", "1Gi"), ("pods", "2")]));
        assert_ne!(other.digest(), first);
        let fewer = with_amounts(amounts(&[("memory", "1Gi")]));
        assert_ne!(fewer.digest(), first);
        let template = |cpu: &str| {
            let replica = amounts(&[("requests.cpu", cpu)]);
            let mut request = request();
            request.footprint.traits = Traits::Template { pod: PodTraits::default(), replica };
            request.digest()
        };
        assert_eq!(template("1"), template("1000m"));
        assert_ne!(template("1"), template("2"));
    }

    #[test]
    fn only_what_is_requested_makes_another_request() {
        let request = FingerprintedRequest::from(request());
        let reservation = request.reservation(Footprint::default(), Timestamp::EPOCH, Span::ZERO);
        assert!(request.is_that_of(&reservation));
        for ttl in [None, Some(Span::from_seconds(31))] {
            let other_ttl = FingerprintedRequest::from(Request { ttl, ..Request::clone(&request) });
            assert!(other_ttl.is_that_of(&reservation));
        }
        let labels = [("app".into(), "web".into())];
        let others = [
            Request { name: "web-2".into(), ..Request::clone(&request) },
            Request { kind: "Job".into(), ..Request::clone(&request) },
            Request { api_version: "v2".into(), ..Request::clone(&request) },
            Request { footprint: Footprint::default(), ..Request::clone(&request) },
            Request {
                footprint: Footprint { labels: labels.into(), ..request.footprint.clone() },
                ..Request::clone(&request)
            },
            Request { basis: Basis::Update { version: 1 }, ..Request::clone(&request) },
        ];
        for other in others.map(FingerprintedRequest::from) {
            assert!(!other.is_that_of(&reservation), "{other:?}");
        }
    }
}
