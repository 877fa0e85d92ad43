//! A request for capacity, and the digest that identifies its repetitions.

use std::{
    ops::Deref,
    sync::{Arc, OnceLock},
};

use crate::{
    codec::{Wire, Writer},
    event::Reservation,
};
use quota_semantics::{
    Name, Span, Timestamp,
    object::{Footprint, GroupResource, Object},
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
        Self {
            request,
            digest: OnceLock::new(),
        }
    }
}

impl Deref for FingerprintedRequest {
    type Target = Request;

    fn deref(&self) -> &Request {
        &self.request
    }
}

impl FingerprintedRequest {
    /// The digest of the request. A repeated request has the same. Computing it takes as long as the decision, so
    /// callers should compute it before they take the writer's turn.
    pub fn digest(&self) -> [u8; 16] {
        *self.digest.get_or_init(|| self.request.digest())
    }

    /// Whether this request made the reservation.
    pub(super) fn is_that_of(&self, reservation: &Reservation) -> bool {
        let recorded = reservation.request;
        self.digest() == recorded || self.older_digest() == recorded
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
        // Marks this version of the digest; the older version begins with the count of its names.
        0_u8.put(&mut writer);
        self.encode_request(&mut writer);
        short_hash(&writer.finish())
    }

    /// The digest as the first ledgers record it.
    fn older_digest(&self) -> [u8; 16] {
        let mut writer = Writer::default();
        self.encode_request(&mut writer);
        short_hash(&writer.finish())
    }

    fn encode_request(&self, writer: &mut Writer) {
        self.namespace.put(writer);
        self.api_version.put(writer);
        self.kind.put(writer);
        self.name.put(writer);
        self.footprint.put(writer);
        self.ttl.map(Span::nanoseconds).put(writer);
        if let Basis::Update { version } = self.basis {
            version.put(writer);
        }
    }
}

fn short_hash(bytes: &[u8]) -> [u8; 16] {
    let hash = blake3::hash(bytes);
    let mut short = [0; 16];
    short.copy_from_slice(&hash.as_bytes()[..16]);
    short
}

#[cfg(test)]
mod tests {
    use super::*;
    use quota_semantics::resource::ResourceList;

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

    /// Ledgers hold these digests: they have to identify repeated requests for ever.
    #[test]
    fn digests_are_made_as_ever() {
        assert_eq!(hex(request().digest()), "ada14ce9988158c8b27b835d773e089e");
        assert_eq!(
            hex(request().older_digest()),
            "173b76d05cb3be6cfe795deeb2a91b95"
        );
    }

    #[test]
    fn a_request_is_known_by_either_digest_and_another_by_none() {
        let request = FingerprintedRequest::from(request());
        let granted = |digest| Reservation {
            request: digest,
            ..request.reservation(Footprint::default(), Timestamp::EPOCH, Span::ZERO)
        };
        let reservations = [request.digest(), request.older_digest()].map(granted);
        assert!(
            reservations
                .iter()
                .all(|reservation| request.is_that_of(reservation))
        );
        let others = [
            Request {
                name: "web-2".into(),
                ..Request::clone(&request)
            },
            Request {
                kind: "Job".into(),
                ..Request::clone(&request)
            },
            Request {
                ttl: None,
                ..Request::clone(&request)
            },
            Request {
                footprint: Footprint::default(),
                ..Request::clone(&request)
            },
            Request {
                basis: Basis::Update { version: 1 },
                ..Request::clone(&request)
            },
        ];
        for other in others.map(FingerprintedRequest::from) {
            assert!(
                !reservations
                    .iter()
                    .any(|reservation| other.is_that_of(reservation)),
                "{other:?}"
            );
        }
    }
}
