//! Watches: entries as they become durable.

use std::io::BufRead;

use serde_json::Value;

use super::{Address, Client, Error, Events, StatusCode};
use crate::wire::Entry;

/// Entries as they become durable, without gaps or duplicates. After an error the next entry is requested over a new
/// connection: callers that continue after a [transient](Error::is_transient) error should pause before.
pub struct Watch<'a> {
    client: &'a Client,
    address: Address,
    last: Option<String>,
    open: Option<Events<Box<dyn BufRead + Send>>>,
}

impl Watch<'_> {
    fn entry(&mut self) -> Result<Entry, Error> {
        let events = match &mut self.open {
            Some(events) => events,
            closed => {
                // What comes between a first connection that breaks early and the next one must not be missed.
                if self.last.is_none() {
                    self.last = Some(self.client.status()?.as_of.sequence.to_string());
                }
                let stream = self
                    .client
                    .open_stream(&self.address, self.last.as_deref())?;
                closed.insert(stream)
            }
        };
        loop {
            let event = events.next_event();
            let broken = |why: String| Error::Unreachable {
                server: self.client.server.clone(),
                why,
            };
            let event = event.map_err(|error| broken(error.to_string()))?;
            let event = event.ok_or_else(|| broken("the daemon ended the stream".to_owned()))?;
            let odd = |error: serde_json::Error| {
                let what = format!("sends an entry of another form: {error}");
                self.client.unexpected(StatusCode::OK, what)
            };
            let data: Value = serde_json::from_str(&event.data).map_err(odd)?;
            // Other events move the position from which the stream is resumed, but are no entries.
            if data.get("event").is_some() {
                return serde_json::from_value(data).map_err(odd);
            }
        }
    }

    /// Closes the stream; the next one continues after its last id.
    fn close(&mut self) {
        let events = self.open.take();
        if let Some(id) = events
            .as_ref()
            .map(Events::last_id)
            .filter(|id| !id.is_empty())
        {
            self.last = Some(id.to_owned());
        }
    }
}

impl Iterator for Watch<'_> {
    type Item = Result<Entry, Error>;

    /// Blocks until an entry is durable, or an error occurs. Never returns `None`.
    fn next(&mut self) -> Option<Self::Item> {
        Some(self.entry().inspect_err(|_| self.close()))
    }
}

impl Client {
    /// The entries of a namespace, or of all, from the sequence `from` on (none: from now on). The stream is opened
    /// when the first entry is requested.
    #[must_use]
    pub fn watch(&self, namespace: Option<&str>, from: Option<u64>) -> Watch<'_> {
        Watch {
            client: self,
            address: Address::of(["v1", "watch"]).with_some("namespace", namespace),
            // A stream goes on behind the last one seen, which for a given beginning is the one before it.
            last: from.map(|from| from.saturating_sub(1).to_string()),
            open: None,
        }
    }

    fn open_stream(
        &self,
        address: &Address,
        last: Option<&str>,
    ) -> Result<Events<Box<dyn BufRead + Send>>, Error> {
        let request = self.stream_request(address, last)?;
        Ok(Events::new(Box::new(self.open(request)?)))
    }
}
