//! A request for capacity, and the digest that it is identified by when it comes again.

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

/// What a reservation is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// The object is to be created.
    Create,
    /// The object is to be changed from this version: the reservation ends when a later one is observed.
    Update {
        /// The version that the change is made to; 0: unknown.
        version: u64,
    },
}

/// A request for capacity.
#[derive(Clone, Debug)]
pub struct Request {
    /// The object that it is for.
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
    /// Create or update.
    pub basis: Basis,
    /// The subresource through which it comes, as in `resize`; empty: none.
    pub subresource: Name,
    /// What the object will count for.
    pub footprint: Footprint,
    /// What it counted for before, as the caller saw it; only for updates of objects not observed yet.
    pub before: Option<Footprint>,
    /// The object, whose containers are checked for what they specify; none: nothing is required of it.
    pub object: Option<Arc<Object>>,
    /// How long to hold; none: the configured default.
    pub ttl: Option<Span>,
}

/// A request that was handed in: it can be read and not changed any more, so its digest is computed once.
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
    /// Digest of the request. A repeated request has the same. It takes as long as the decision, so whoever has the
    /// time asks for it beforehand.
    pub fn digest(&self) -> [u8; 16] {
        *self.digest.get_or_init(|| self.request.digest())
    }

    /// Whether this is the request of a reservation.
    pub(super) fn is_that_of(&self, reservation: &Reservation) -> bool {
        let known = reservation.request;
        self.digest() == known || self.older_digest() == known
    }

    /// The reservation that is granted for it.
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
            after_version: match self.basis {
                Basis::Create => 0,
                Basis::Update { version } => version,
            },
            request: self.digest(),
        }
    }
}

impl Request {
    fn digest(&self) -> [u8; 16] {
        let mut writer = Writer::spelling();
        // Represents this way to make the digest; the older one begins with the count of its names.
        0_u8.put(&mut writer);
        self.put_asked(&mut writer);
        short_hash(&writer.finish())
    }

    /// As the first ledgers remember it.
    fn older_digest(&self) -> [u8; 16] {
        let mut writer = Writer::default();
        self.put_asked(&mut writer);
        short_hash(&writer.finish())
    }

    fn put_asked(&self, writer: &mut Writer) {
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

    /// They are in ledgers: a request that comes again has to be known by them.
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
        let known = [request.digest(), request.older_digest()].map(granted);
        assert!(known.iter().all(|known| request.is_that_of(known)));
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
                !known.iter().any(|known| other.is_that_of(known)),
                "{other:?}"
            );
        }
    }
}
